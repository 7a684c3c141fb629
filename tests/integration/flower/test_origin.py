"""From Flower's page of a task back to what the task comes from."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from celery_pecker.schedules.engine.model import task_id
from tests.integration.flower.outbox_rows import APP, STRANGE, write_outbox
from tests.integration.flower.rows import Row, write
from tests.integration.flower.site import Site


@pytest.fixture(scope="module")
def site(shared_dsn: str, start: Callable[..., Site]) -> Site:
    """Give a Flower over entries and an outbox."""
    write(shared_dsn, [Row(name=name, late=(5, 6, 7)) for name in ("red", "blue & co")])
    write_outbox(shared_dsn)
    return start(shared_dsn, more=APP)


def origins(site: Site, task: str, name: str) -> list[dict[str, str]]:
    """Return where Flower's page of a task leads, once a worker has received it."""
    site.received(task, name)
    found: list[dict[str, str]] = site.get("/pecker/origin", id=task).json()["places"]
    return found


def test_a_run_leads_to_its_entry(site: Site, shared_dsn: str) -> None:
    """Entries that send the same task are told apart, whatever is in their names."""
    with psycopg.connect(shared_dsn) as connection:
        [(due,)] = connection.execute(
            "select due_us[1] from pecker_history where name = 'blue & co'"
        )
    [place] = origins(site, task_id("public", "blue & co", due, 0), "proj.tick")
    assert place["title"] == "Schedule"
    assert place["text"] == "blue & co"
    assert "blue" in site.client.get(site.url + place["url"]).text
    assert site.get("/schedules/entry/data", name=place["text"]).status_code == 200


def test_a_parked_message_leads_to_its_page(site: Site, shared_dsn: str) -> None:
    """Its outbox is in the address."""
    with psycopg.connect(shared_dsn) as connection:
        [(number, task)] = connection.execute(
            "select id, task_id from pecker_outbox where task = %s", [STRANGE]
        )
    [place] = origins(site, task, STRANGE)
    assert place["url"].endswith(f"/outbox/message?outbox=default&id={number}")
    assert task in site.client.get(site.url + place["url"]).text


def test_other_tasks_lead_nowhere(site: Site) -> None:
    """Neither one that somebody called, nor one that Flower does not know."""
    assert origins(site, "1f7c0d52-93ab-4e08-8d61-b2a5e6c47f19", "proj.tick") == []
    assert site.get("/pecker/origin", id="nobody").json() == {"places": []}
