"""From an entry that fails to the task that raised, and its traceback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
from celery import Celery

from celery_pecker.schedules.engine.model import task_id
from celery_pecker.testing import eventually
from tests.integration.flower.rows import Row, write
from tests.integration.flower.site import Site

DUE_US = 1_767_268_800 * 1_000_000
TRACEBACK = 'Traceback (most recent call last): in "proj.py", line 7, in tick'
FAILED = """
insert into pecker_outcomes
    (name, failed, bad_era, bad_due, bad_at, bad_report, bad_host, bad_error)
values ('raises', 7, 0, '2026-01-01T12:00Z', now(), 12, 'celery@one',
    'RuntimeError()')
"""


def test_the_task_of_a_failing_entry_shows_its_traceback(
    shared_dsn: str, start: Callable[..., Site]
) -> None:
    """The run that an entry's page names is the task that Flower knows by events."""
    write(shared_dsn, [Row(name="raises", late=(1500,))])
    with psycopg.connect(shared_dsn) as connection:
        connection.execute(FAILED.encode())
    site = start(shared_dsn)

    data: dict[str, Any] = site.client.get(
        f"{site.url}/schedules/entry/data?name=raises"
    ).json()
    assert data["row"]["outcomes"]["failing"]
    task = task_id("public", "raises", DUE_US, 0)
    assert data["bad"]["task"] == task

    def known() -> str:
        raised(site.broker_url, task)  # until Flower listens, events go past it
        return found(site, task)

    page = eventually(known, 60.0, "Flower knows the task")
    assert "FAILURE" in page
    assert "line 7, in tick" in page


def raised(broker_url: str, task: str) -> None:
    """A worker says that it ran the task, which raised."""
    app = Celery("proj", broker=broker_url)
    with (
        app.connection_for_write() as connection,
        app.events.Dispatcher(connection, hostname="celery@one") as dispatcher,
    ):
        dispatcher.send("task-received", uuid=task, name="proj.tick", args="()")
        dispatcher.send("task-started", uuid=task)
        dispatcher.send(
            "task-failed", uuid=task, exception="RuntimeError()", traceback=TRACEBACK
        )
    app.close()


def found(site: Site, task: str) -> str:
    """Return Flower's own page of a task; nothing while it does not know it."""
    answer = site.client.get(f"{site.url}/task/{task}")
    return answer.text if answer.status_code == 200 and "FAILURE" in answer.text else ""
