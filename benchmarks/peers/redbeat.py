"""RedBeat: a sorted set and a hash for each entry in Redis, one lock."""

from __future__ import annotations

from celery import Celery, schedules
from redbeat import RedBeatSchedulerEntry

from benchmarks.peers.given import PERIOD, TASK, entry, given

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
        RedBeatSchedulerEntry(
            entry(number), TASK, schedules.schedule(PERIOD), args=[number], app=app
        ).save()
