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
    assert found["cards"]["ringing"]["text"] == "1"
    assert rows["targets"][0]["last_error"] == "ConnectionError: away"
    page = site.get("/alarms").text
    assert re.search(r'aria-current="page"\s*>Alarms</a>', page)
