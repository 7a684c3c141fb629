"""RedBeat: a sorted set and a hash for each entry in Redis, one lock."""

from __future__ import annotations

from celery import Celery, schedules
from redbeat import RedBeatSchedulerEntry

from benchmarks.peers.environment import TASK, entry, every, given

LOCK = "60"
"""Seconds. RedBeat renews its lock once in a round, and a round takes as long as it
takes to send all that is due: a lock of the usual length is lost, and RedBeat ends."""


def configure(app: Celery) -> None:
    """The app finds its entries in Redis."""
    app.conf.update(
        redbeat_redis_url=given("REDIS"),
        redbeat_key_prefix=f"{given('SCHEMA')}:",
        beat_max_loop_interval=1,
        redbeat_lock_timeout=int(given("LOCK", LOCK)),
    )


def load(app: Celery, entries: int) -> None:
    """The entries are in Redis."""
    for number in range(entries):
        put(app, number, every())


def put(app: Celery, number: int, period: float) -> None:
    """An entry of that period is in Redis."""
    RedBeatSchedulerEntry(
        entry(number), TASK, schedules.schedule(period), args=[number], app=app
    ).save()


def remove(app: Celery, number: int) -> None:
    """The entry is gone."""
    _entry(app, number).delete()


def edit(app: Celery, number: int, edition: int) -> None:
    """The entry's task is called with another argument from now on."""
    changed = _entry(app, number)
    changed.kwargs = {"edition": edition}
    changed.save()


def _entry(app: Celery, number: int) -> RedBeatSchedulerEntry:
    key = f"{given('SCHEMA')}:{entry(number)}"
    return RedBeatSchedulerEntry.from_key(key, app=app)
