"""Upkeep forgets what is over, and nothing that somebody is just storing anew."""

from __future__ import annotations

import threading

import psycopg

from celery_pecker.testing import eventually
from tests.integration.stored_schedules.conftest import Desk

DAY = 86_400.0


def forget(desk: Desk) -> list[str]:
    """Return what a scheduler forgets now."""
    with desk.schedules._calls.connections.connection() as database:
        rows = database.run("forget_undeclared", after=DAY, now=None)
    return [name for (name,) in rows]


def age(desk: Desk) -> None:
    """Let all that was stored be two days old, and single runs be over."""
    desk.sql(
        "update pecker_schedules set once_at = once_at - interval '2 days',"
        " removed_at = removed_at - interval '2 days'"
    )
    desk.sql("update pecker_tasks set executed_at = now() - interval '25 hours'")
    desk.sql(
        "update pecker_declarations set declared_until = now() - interval '2 days'"
        " where declared_until <> 'infinity'"
    )


def test_what_is_being_stored_anew_is_not_forgotten(desk: Desk) -> None:
    """Neither deleted once its transaction commits, nor a deadlock with it."""
    desk.set("single", once=True)
    desk.set("removed")
    desk.schedules.remove("removed")
    desk.set("over")
    desk.schedules.remove("over")
    age(desk)
    found: list[str] = []

    def upkeep() -> None:
        found.extend(forget(desk))

    thread = threading.Thread(target=upkeep)
    with psycopg.connect(desk.dsn) as connection:
        for name in ("single", "removed"):
            desk.set(name, schedule=60, connection=connection)
        thread.start()
        eventually(lambda: not thread.is_alive() or _waits(desk))
    thread.join(30)
    assert not thread.is_alive()
    assert found == ["over"]
    assert [row.name for row in desk.schedules.list()] == ["removed", "single"]
    assert [desk.hot(name)[3] for name in ("removed", "single")] == [3, 2]


def _waits(desk: Desk) -> bool:
    waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
    [(count,)] = desk.sql(waiting + " and datname = current_database()")
    return bool(count)
