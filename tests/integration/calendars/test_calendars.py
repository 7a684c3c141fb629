"""Schedules by a calendar on real tables, and in real schedulers."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery

from celery_pecker.calendars import CalendarSchedule, cron, recurrence
from celery_pecker.kernel.clock import MICROSECOND
from celery_pecker.testing import eventually
from celery_pecker.testing.manual import ManualClock, ManualPecker
from tests.nodes import beat

APP = "tests.integration.calendars.app"
ROOT = Path(__file__).parents[3]
SECOND = timedelta(seconds=1)
HALF = timedelta(minutes=30)


@pytest.fixture
def app() -> Iterator[Celery]:
    """Give an app."""
    app = Celery("test", broker="memory://", set_as_current=False)
    yield app
    app.close()


def play(
    app: Celery, dsn: str, schedule: CalendarSchedule, looks: Sequence[datetime]
) -> list[datetime]:
    """Return the slots that a scheduler sends which looks at these instants."""
    app.conf.beat_schedule = {"entry": {"task": "work", "schedule": schedule}}
    with ManualPecker(app, dsn=dsn, clock=ManualClock(looks[0])) as pecker:
        sent = []
        for before, now in pairwise(looks):
            pecker.clock.advance_us((now - before) // MICROSECOND)
            sent += pecker.turn()
    return [datetime.fromisoformat(str(one.header["due_at"])) for one in sent]


def test_the_published_example_runs_to_the_instant(app: Celery, dsn: str) -> None:
    """Its first run is the start, and nothing runs after the end."""
    published = recurrence(
        start="2022-03-23 18:00",
        zone="Asia/Shanghai",
        level="month",
        every=2,
        days=[3, 5, 23],
        end="2022-05-23 18:00",
    )
    start = datetime(2022, 3, 1, 10, 0, 1, tzinfo=UTC)
    days = [start + timedelta(days=n) for n in range(150)]
    assert play(app, dsn, published, days) == [
        datetime(2022, 3, 23, 10, tzinfo=UTC),
        datetime(2022, 5, 3, 10, tzinfo=UTC),
        datetime(2022, 5, 5, 10, tzinfo=UTC),
        datetime(2022, 5, 23, 10, tzinfo=UTC),
    ]


def test_a_scheduler_keeps_the_rule_for_clocks_that_change(
    app: Celery, dsn: str
) -> None:
    """Half an hour: both passes of the hour, one after the other."""
    every = cron("*/30 * * * *", zone="Europe/Paris")
    autumn = datetime(2026, 10, 24, 22, 45, tzinfo=UTC)
    found = play(app, dsn, every, [autumn + n * HALF for n in range(13)])
    assert len(found) == 12
    assert {late - early for early, late in pairwise(found)} == {HALF}


class Queue:
    """The messages that came, by entry."""

    def __init__(self, client: redis.Redis, name: str) -> None:
        self._client = client
        self._name = name
        self.messages: defaultdict[str, list[Any]] = defaultdict(list)

    def least(self) -> int:
        """Return how many came of the entry that has fewest."""
        while (text := self._client.rpop(self._name)) is not None:
            message = json.loads(text)  # type: ignore[arg-type]
            self.messages[message["headers"]["task"]].append(message)
        names = ("tasks.seconds", "tasks.splayed")
        return min(len(self.messages[name]) for name in names)


@pytest.mark.cluster
def test_real_schedulers_fire_each_second_once(
    dsn: str, redis_url: str, queue_name: str
) -> None:
    """Two replicas and one cron with seconds: each slot is sent once, by its instant.

    On a busy machine slots may pass, which coalesce; none may come twice.
    """
    env = {
        "PECKER_TEST_QUEUE": queue_name,
        "PECKER_TEST_BROKER": redis_url,
        "PECKER_TEST_BEAT_DSN": dsn,
    }
    with redis.Redis.from_url(redis_url) as client, ExitStack() as stack:
        for name in ("one", "two"):
            node = beat(APP, name=name, cwd=ROOT, env=env)
            stack.callback(node.teardown)
            node.process.start()
        queue = Queue(client, queue_name)
        eventually(lambda: queue.least() >= 4, 60)
    for name, apart in (("tasks.seconds", True), ("tasks.splayed", False)):
        slots = [one["headers"]["pecker"]["due_at"] for one in queue.messages[name]]
        assert max(Counter(slots).values()) == 1
        instants = [datetime.fromisoformat(one) for one in sorted(slots)]
        assert all((one - instants[0]) % SECOND == timedelta(0) for one in instants)
        assert (instants[0].microsecond == 0) == apart


@pytest.mark.cluster
def test_celerys_own_beat_fires_them_too(
    redis_url: str, queue_name: str, tmp_path: Path
) -> None:
    """With its own scheduler, which keeps them in its file."""
    env = {"PECKER_TEST_QUEUE": queue_name, "PECKER_TEST_BROKER": redis_url}
    file = f"--schedule={tmp_path / 'beat'}"
    with redis.Redis.from_url(redis_url) as client, ExitStack() as stack:
        node = beat(
            APP,
            name="theirs",
            cwd=ROOT,
            env=env,
            options=[file],
            scheduler="celery.beat:PersistentScheduler",
        )
        stack.callback(node.teardown)
        node.process.start()
        queue = Queue(client, queue_name)
        eventually(lambda: queue.least() >= 2, 60)
