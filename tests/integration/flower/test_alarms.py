"""The page Alarms, as a browser gets it from a real Flower."""

from __future__ import annotations

import re
from collections.abc import Callable

import psycopg
import pytest

from celery_pecker.testing import eventually
from tests.integration.cli.test_alarms import RINGS
from tests.integration.flower.outbox_rows import ANYBODY
from tests.integration.flower.site import Site


@pytest.fixture(scope="module")
def site(shared_dsn: str, start: Callable[..., Site]) -> Site:
    """Give a Flower."""
    return start(shared_dsn, env=ANYBODY)


def test_what_rings_is_on_the_page(site: Site, shared_dsn: str) -> None:
    """And what has recovered, the targets, and an entry in the menu."""
    with psycopg.connect(shared_dsn) as connection:
        connection.execute(RINGS)
    eventually(lambda: len(site.data("/alarms")["rows"]["alarms"]) == 2, 30.0)
    found = site.data("/alarms")
    rows = found["rows"]
    assert [(one["subject"], one["state"]) for one in rows["alarms"]] == [
        ("tick [bold]", "ringing"),
        ("tock", "recovered"),
    ]
    assert rows["alarms"][0]["since"] < found["now"]
    for query, subjects in (
        ({"state": "recovered"}, ["tock"]),
        ({"subject": "TICK"}, ["tick [bold]"]),
        ({"rule": "nobody's"}, []),
    ):
        chosen = site.data("/alarms", **query)["rows"]["alarms"]
        assert [one["subject"] for one in chosen] == subjects
    assert found["known"] == {"rule": [rows["alarms"][0]["rule"]]}
    assert found["cards"]["ringing"]["text"] == "1"
    assert rows["targets"][0]["last_error"] == "ConnectionError: away"
    with psycopg.connect(shared_dsn) as connection:
        connection.execute(
            "insert into pecker_alarms (rule, subject, kind, state, detail, since,"
            " seen_at, rang_at, recovered_at, noticed) select 'silent', 'more ' || n,"
            " 'silent', 'recovered', '', now(), now(), case when n % 2 = 0 then now() -"
            " n / 4 * interval '1 s' end, now(), false from generate_series(1, 250) n"
        )
    eventually(lambda: site.data("/alarms")["more"], 30.0)
    first = site.data("/alarms")
    rest = site.data("/alarms", after=first["next"])
    shown = [one["key"] for one in first["rows"]["alarms"] + rest["rows"]["alarms"]]
    assert (len({*shown}), len(shown), rest["more"]) == (252, 252, False)
    page = site.get("/alarms").text
    assert re.search(r'aria-current="page"\s*>Alarms</a>', page)
