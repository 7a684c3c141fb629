"""Entries that are no grid fall silent, too: crontabs of code, and stored schedules."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from celery import Celery
from celery.schedules import crontab

from celery_pecker.alarms.model import StoredSlot
from celery_pecker.kernel.clock import new_id, to_us
from celery_pecker.kernel.database import Database
from celery_pecker.schedules.declarations.beat_schedule import BeatSchedule
from celery_pecker.schedules.engine.repository import Repository
from celery_pecker.schedules.replica.alarms import (
    COMPUTED_AT_ONCE,
    REMEMBERED,
    Instants,
    StoredInstants,
)
from celery_pecker.testing.manual import ManualClock
from tests.integration.alarms.conftest import INTERVAL, Rows, Starter
from tests.integration.schedules.stored import store

Passing = Callable[[float], None]
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
RULES = {"silent": {"after": 60.0, "cooldown": 0}}


def instants_of(schedules: dict[str, Any]) -> Instants:
    """Return the instants of an app with these entries."""
    app = Celery("proj", set_as_current=False, broker="memory://")
    app.conf.beat_schedule = {
        name: {"task": "proj.tick", "schedule": given}
        for name, given in schedules.items()
    }
    return Instants(app, BeatSchedule(app))


def test_the_last_instant_of_a_crontab_is_not_after_the_moment() -> None:
    """Asked again it moves on; a grid has none: the table knows its period."""
    instants = instants_of(
        {"hourly": crontab(minute=0), "daily": crontab(minute=30, hour=6), "grid": 30.0}
    )
    half_past = instants(NOON + timedelta(minutes=30))
    assert "grid" not in half_past
    assert half_past["hourly"] == NOON
    assert half_past["daily"] == NOON - timedelta(hours=5, minutes=30)
    almost = instants(NOON + timedelta(minutes=59, seconds=59))
    assert almost["hourly"] == NOON
    assert instants(NOON + timedelta(hours=1))["hourly"] == NOON + timedelta(hours=1)


def test_crontabs_that_a_look_leaves_out_are_first_in_the_next_one() -> None:
    """Those of every minute would take all of each look's turns."""
    count = COMPUTED_AT_ONCE + 50
    instants = instants_of({f"every minute {n}": crontab() for n in range(count)})
    first = instants(NOON)
    second = instants(NOON + timedelta(minutes=1))
    ours = [name for name in second if name.startswith("every minute")]
    assert len(first) == COMPUTED_AT_ONCE
    assert len(ours) == count


def test_a_process_that_does_not_know_an_instant_yet_lets_nothing_recover(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """It has just begun, and works out a part of its crontabs in each look."""
    instants: dict[str, datetime] = {}
    knows, begins = watch(RULES, instants=lambda _: instants), watch(RULES)
    rows.entry("cron", last=400.0, period=None)
    rows.entry("won", last=400.0, period=None)
    instants |= dict.fromkeys(("cron", "won"), rows.ago(100.0))
    assert {notice.subject for notice in knows.turn()} == {"cron", "won"}
    rows.entry("won", last=1.0, period=None)
    pass_time(INTERVAL)
    got = [(notice.subject, notice.event) for notice in begins.turn()]
    assert got == [("won", "recovered")]
    instants["cron"] = rows.ago(700.0)  # stale: it was worked out for an earlier look
    pass_time(INTERVAL)
    assert knows.turn() == []
    rows.entry("cron", last=1.0, period=None)
    pass_time(INTERVAL)
    assert [notice.event for notice in begins.turn()] == ["recovered"]


def test_silent_is_a_stored_schedule_that_is_no_grid(
    watch: Starter, rows: Rows, dsn: str, clock: ManualClock, pass_time: Passing
) -> None:
    """Not one that cannot be read, has ended, or ran its once; an edit counts."""
    database = Database(dsn, schema="public", timeout=10.0, role="test")
    app = Celery("proj", set_as_current=False, broker="memory://")
    database.now = clock.now
    stored = StoredInstants(app, Repository(database, new_id()))
    one = watch({"silent": {"after": 60.0}}, stored=stored)
    soon, cron = clock.now() + timedelta(seconds=100), {"cron": "*/5 * * * *"}
    once = {"once": soon.isoformat()}
    store(dsn, "cron", cron, clock=clock)
    store(dsn, "edited", cron, clock=clock)
    store(dsn, "unreadable", {"cron": "nonsense"}, clock=clock)
    store(dsn, "ended", cron, clock=clock, end=soon)
    store(dsn, "bounded", {"every": 300}, clock=clock, start=soon)
    store(dsn, "once", once, clock=clock, once_at=soon)
    store(dsn, "done", once, clock=clock, once_at=soon)
    rows.run("update pecker_tasks set executed_at = %s where name = 'done'", soon)
    assert one.turn() == []
    pass_time(155.0)
    assert one.turn() == []
    pass_time(INTERVAL)
    assert {notice.subject for notice in one.turn()} == {"bounded", "once"}
    store(dsn, "edited", {"cron": "0 12 * * *"}, clock=clock, anchor=False)
    pass_time(300.0)
    assert [notice.subject for notice in one.turn()] == ["cron"]
    rows.run("update pecker_tasks set executed_at = %s", clock.now())
    pass_time(INTERVAL)
    ends = {(notice.subject, notice.event) for notice in one.turn()}
    assert ends == {(name, "recovered") for name in ("bounded", "cron", "once")}
    database.close()


def test_instants_of_what_is_gone_are_forgotten(dsn: str, clock: ManualClock) -> None:
    """Each single run has a name of its own: they would pile up for ever."""
    database = Database(dsn, schema="public", timeout=10.0, role="test")
    app = Celery("proj", set_as_current=False, broker="memory://")
    database.now = clock.now
    stored = StoredInstants(app, Repository(database, new_id()))
    slots = []
    for name in ("gone", "stays"):
        store(dsn, name, {"cron": "0 0 1 1 *"}, clock=clock)
        slots.append(StoredSlot(name, 1, to_us(clock.now())))
    assert set(stored(slots, clock.now())) == {"gone", "stays"}
    database.close()
    for _ in range(3):
        clock.advance_us(round(REMEMBERED * 1.1 * 1_000_000))
        assert set(stored(slots[1:], clock.now())) == {"stays"}
    assert not database.connected, "what stays was read once more"
    assert {*stored._before, *stored._known} == {"stays"}
