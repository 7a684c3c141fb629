"""Schedules of a hot database wait: Pecker's own kernel on real tables."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from celery import Celery

from celery_pecker.testing import eventually
from celery_pecker.testing.manual import ManualClock, ManualPecker
from tests.integration.throttle.gate.scheduled_app import HOT, app, every_second
from tests.nodes import beat
from throttle.exchange import Exchanger, Snapshot
from throttle.gate import Gate
from throttle.gate.schedules import ScheduleGate
from throttle.model import Amount, Estimator, ExchangeAnswer, Reading, Seen
from throttle.route import Route, load
from throttle.settings import Settings
from throttle.store.redis import RedisStore

ROOT = Path(__file__).parents[4]


class SnapshotSource:
    """What is known is what a test says, and never stale."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.traffic = 0.0

    @property
    def snapshot(self) -> Snapshot:
        """Return what was just heard: traffic of `main` alone."""
        heard = {
            name: Seen(traffic=dict.fromkeys(Estimator, Amount(traffic)), outside={})
            for name, traffic in (("main", self.traffic), ("other", 0.0))
        }
        answer = ExchangeAnswer(at=0, databases=heard)
        return Snapshot(answer, self._clock.monotonic(), away=False)

    def wait(self, timeout: float) -> bool:
        """Say that nothing has to be waited for."""
        return timeout >= 0


class Stage:
    """A replica turned by hand, and what its gate knows."""

    def __init__(self, dsn: str, given: Celery = app) -> None:
        clock = ManualClock()
        self.known = SnapshotSource(clock)
        settings = Settings.read(app.conf)
        self.gate = Gate(settings, exchange=self.known, clock=clock.monotonic)
        self.route = Route(load(settings.route), settings.limits)
        self.pecker = ManualPecker(
            given,
            dsn=dsn,
            clock=clock,
            gate=ScheduleGate(given, self.gate, self.route),
        )

    def names(self, seconds: float) -> Counter[str]:
        """Return what ran in that time."""
        return Counter(one.name for one in self.pecker.pass_time(seconds))


@pytest.fixture
def stage(dsn: str) -> Iterator[Stage]:
    """Give a replica of the app and what its gate knows."""
    made = Stage(dsn)
    with made.pecker:
        yield made


def test_entries_of_a_hot_database_wait_and_others_run(stage: Stage) -> None:
    """Told by the task's option, or by the route from arguments and headers."""
    stage.known.traffic = 1000
    assert set(stage.names(5.05)) == {"of another", "of nobody", "not routed"}
    stage.known.traffic = 0
    assert set(stage.names(1.2)) == {*app.conf.beat_schedule}
    assert stage.route.failures > 0, "a route that fails lets its entry pass"


def test_no_more_pass_than_the_quota_of_a_cycle(stage: Stage) -> None:
    """Half a limit is fifty tasks; so near to it that one is left, one."""
    stage.known.traffic = 985
    ran = stage.names(10.5)
    assert sum(ran[name] for name in HOT) in range(9, 12)
    assert ran["of another"] == 10


@pytest.mark.parametrize(
    ("policy", "late"),
    [
        ({}, 1),
        ({"misfire": "skip", "grace": 0.1}, 0),
        ({"misfire": "catch_up", "catch_up": 4}, 4),
    ],
)
def test_what_waited_follows_its_misfire_policy(
    dsn: str, policy: dict[str, object], late: int
) -> None:
    """Coalesce runs once, skip not at all, catch up a bounded number."""
    given = Celery("waits", set_as_current=False)
    given.conf.beat_schedule = {
        "hot": {
            **every_second("report", kwargs={"tenant": "acme"}, pecker=policy),
            "schedule": 10.0,
        }
    }
    stage = Stage(dsn, given)
    with stage.pecker:
        stage.known.traffic = 5000
        assert not stage.names(105)
        stage.known.traffic = 0
        assert stage.names(3) == Counter({"hot": late} if late else {})
        assert stage.names(10)["hot"] == 1, "then it goes on as before"


# A real scheduler, a real Redis, and somebody who works the database hard


class Ran:
    """Messages of a queue, by the entry that they are of."""

    def __init__(self, url: str) -> None:
        self._redis = redis.Redis.from_url(url)
        self.counts: Counter[str] = Counter()

    def look(self) -> Counter[str]:
        """Return how often each entry ran so far."""
        while (text := self._redis.rpop("scheduled")) is not None:
            message = json.loads(text)  # type: ignore[arg-type]
            self.counts[message["headers"]["pecker"]["name"]] += 1
        return self.counts

    def close(self) -> None:
        """Hang up."""
        self._redis.close()


class Busy:
    """The meter of somebody who does so much between two readings."""

    operations = 0.0

    def read(self) -> Reading:
        """Return what was done since."""
        return Reading({"main": Amount(self.operations)})


@pytest.mark.cluster
def test_a_scheduler_in_its_own_process_waits_for_the_database(
    dsn: str, redis_url: str
) -> None:
    """By two settings; what other processes do decides, through Redis."""
    settings = Settings.read({**app.conf, "throttle_redis_url": redis_url})
    store, busy, ran = RedisStore(redis_url), Busy(), Ran(redis_url)
    worker = Exchanger(settings, store, busy.read, name="load")
    env = {"THROTTLE_TEST_DSN": dsn, "THROTTLE_TEST_REDIS": redis_url}
    node = beat(
        "tests.integration.throttle.gate.scheduled_app",
        name="gated",
        cwd=ROOT,
        env=env,
        scheduler="pecker",
    )
    busy.operations = 500
    worker.start()
    try:
        assert worker.wait(30.0)
        node.process.start()
        eventually(lambda: ran.look()["of another"] >= 4, 60)
        assert not HOT & {*ran.look()}
        busy.operations = 0
        eventually(lambda: {*ran.look()} >= HOT, 30)
        assert node.process.exit_code is None
    finally:
        worker.stop()
        store.close()
        ran.close()
        node.teardown()
