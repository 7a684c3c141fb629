"""The page Now, as a browser gets it from a real Flower."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from celery_pecker.testing import eventually
from tests.integration.flower.outbox_rows import ANYBODY
from tests.integration.flower.rows import Row, write
from tests.integration.flower.site import Site


@pytest.fixture(scope="module")
def site(shared_dsn: str, start: Callable[..., Site]) -> Site:
    """Give a Flower over one entry, and a scheduler that is alive."""
    write(shared_dsn, [Row(name="tick", behind=30.0)])
    return start(shared_dsn, env=ANYBODY)


def cause(site: Site, check: str) -> dict[str, Any]:
    """Return what the page says of a cause, once it does."""

    def found() -> list[dict[str, Any]]:
        rows = site.data("/now")["rows"]["causes"]
        return [one for one in rows if one["check"].startswith(check)]

    [row] = eventually(found, 30.0, f"{check} is found")
    return row


def test_a_cause_says_what_it_is_since_when_and_what_to_do(site: Site) -> None:
    """What is overdue has its own instant, whenever Flower was started."""
    row = cause(site, "overdue")
    data = site.data("/now")
    assert row["title"] == "Entries are overdue"
    assert "'tick'" in row["text"]
    assert row["advice"]
    assert data["now"] - row["since_us"] > 25_000_000
    assert data["wrong"] >= 1
    assert site.get("/now").status_code == 200


def test_its_button_ends_a_session(site: Site, shared_dsn: str) -> None:
    """Asked for with the token of the page, as every act."""
    with psycopg.connect(shared_dsn, application_name="forgotten") as connection:
        connection.execute("select from pecker_tasks for update")
        row = cause(site, "locks")
        assert "application forgotten" in row["text"]
        assert row["acts"] == ["end"]
        body: dict[str, Any] = {"act": "end", "names": [row["about"]]}
        assert site.post("/now/act", token=False, **body).status_code == 403
        assert site.post("/now/act", **body).status_code == 200
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")
        assert site.post("/now/act", **body).status_code == 404


def test_the_page_of_an_entry_says_why_it_does_not_run(
    site: Site, shared_dsn: str
) -> None:
    """As `explain` does: the session by its process number, not a guess."""

    def verdict() -> dict[str, Any]:
        told: dict[str, Any] = site.data("/schedules/entry", name="tick")["verdict"]
        return told

    assert verdict()["trouble"]
    assert "although 1 scheduler is alive" in verdict()["why"]
    with psycopg.connect(shared_dsn) as connection:
        connection.execute("select from pecker_tasks for update")
        ends = f"select pg_terminate_backend({connection.info.backend_pid})"
        eventually(lambda: ends in verdict()["advice"], 30.0, "the session is named")


def test_each_page_has_the_badge(site: Site) -> None:
    """Flower's own, too."""
    for path in ("/", "/schedules"):
        assert 'id="pecker-badge"' in site.get(path).text
    assert site.client.get(f"{site.url}/now/static/badge.js").status_code == 200
