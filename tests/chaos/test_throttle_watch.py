"""The second signal while those who ask for it are killed and frozen."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import psycopg
import pytest
from psycopg import conninfo

from celery_pecker.testing import EmbeddedPostgres, EmbeddedRedis, eventually
from example_project.processes import ProcessContainer
from tests.chaos import throttle_watcher
from tests.integration.throttle.watch.backend import LOCK, at_work
from tests.told import telling
from throttle.errors import StoreUnavailable
from throttle.model import Amount, DatabaseReport, Report, Sample
from throttle.store.redis import RedisStore

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

WHOLE = 1.0
MINE = "throttle:watch"


class Watch:
    """Two watchers, the busy server that they watch, and their Redis."""

    def __init__(self, redis: EmbeddedRedis, postgres: EmbeddedPostgres) -> None:
        self.redis = redis
        self.store = RedisStore(redis.url, timeout=1.0)
        self.seen: list[float] = []
        self._reports = 0
        self._stack = ExitStack()
        self._admin = self._stack.enter_context(
            psycopg.connect(postgres.dsn, autocommit=True)
        )
        self._admin.execute("select pg_advisory_lock(%s)", [LOCK])
        self._stack.enter_context(at_work(postgres.dsn))
        self.processes = {name: self._begin(name, postgres.dsn) for name in ("a", "b")}
        for name in self.processes:
            self.is_ready(name)

    def _begin(self, name: str, dsn: str) -> ProcessContainer:
        theirs = conninfo.make_conninfo(dsn, application_name=f"{MINE}:{name}")
        process = ProcessContainer(
            [sys.executable, "-m", throttle_watcher.__name__],
            name=name,
            env={
                **telling(self.redis.url, theirs, name),
                "PYTHONPATH": ":".join(filter(None, sys.path)),
            },
        )
        self._stack.callback(process.remove)
        process.start()
        return process

    def close(self) -> None:
        """All of it has ended."""
        self._stack.close()
        self.store.close()

    def factor(self) -> float:
        """Return how much of the limit is in force, while there is traffic of ours."""
        self._reports += 1
        told = DatabaseReport(samples=(Sample(0.0, Amount(100)),))
        report = Report(
            holder="web", name="", databases={"main": told}, number=self._reports
        )
        self.seen.append(self.store.exchange(report).databases["main"].factor)
        return self.seen[-1]

    def asking(self) -> set[str]:
        """Return the names of those who are connected to ask; counts traffic too."""
        self.factor()
        rows = self._admin.execute(
            "select application_name from pg_stat_activity"
            " where starts_with(application_name, %s)",
            [MINE],
        )
        return {name.rpartition(":")[2] for (name,) in rows}

    def is_ready(self, name: str) -> None:
        """It may be elected; traffic counts meanwhile."""

        def said() -> bool:
            self.factor()
            return "ready" in self.processes[name].life_log()

        eventually(said, timeout=30)

    def alone(self) -> str:
        """Return the name of the one who asks, once it is one."""
        eventually(lambda: len(self.asking()) == 1, timeout=30.0)
        [name] = self.asking()
        return name

    def is_followed_by(self, name: str) -> None:
        """Only that one asks now."""
        eventually(lambda: self.asking() == {name}, timeout=30.0)


@pytest.fixture
def watch(
    own_redis: Callable[..., EmbeddedRedis],
    own_postgres: Callable[..., EmbeddedPostgres],
) -> Iterator[Watch]:
    """Give two watchers over a server that is busy."""
    made = Watch(own_redis(fast=True), own_postgres(fast=True))
    yield made
    made.close()


def other(name: str) -> str:
    """Return the rival's name."""
    return "b" if name == "a" else "a"


def test_a_killed_watcher_is_followed_before_its_word_lapses(watch: Watch) -> None:
    """The limit does not become whole in between, as long as the server is busy."""
    eventually(lambda: watch.factor() < WHOLE, timeout=30)
    for _ in range(3):
        first = watch.alone()
        began = len(watch.seen)
        watch.processes[first].kill()
        watch.is_followed_by(other(first))
        assert max(watch.seen[began:]) < WHOLE
        watch.processes[first].start()
        watch.is_ready(first)  # or the next blow leaves nobody


def test_a_frozen_watcher_is_followed_and_says_nothing_when_it_wakes(
    watch: Watch,
) -> None:
    """Its connection may stay while it is frozen; then there is one watcher again."""
    eventually(lambda: watch.factor() < WHOLE, timeout=30)
    first = watch.alone()
    began = len(watch.seen)
    watch.processes[first].kill(signal.SIGSTOP)
    eventually(lambda: watch.asking() == {"a", "b"}, timeout=30.0)
    watch.processes[first].kill(signal.SIGCONT)
    watch.is_followed_by(other(first))
    assert max(watch.seen[began:]) < WHOLE


def test_a_redis_that_forgot_everything_hears_the_word_again(watch: Watch) -> None:
    """Killed and started empty: the limit is whole until the next rounds cut it."""
    eventually(lambda: watch.factor() < WHOLE, timeout=30)
    watch.redis.kill()
    watch.redis.start()
    eventually(lambda: watch.factor() < WHOLE, timeout=30, ignoring=(StoreUnavailable,))
    eventually(lambda: len(watch.asking()) == 1, timeout=30.0)


def test_one_that_ends_hands_over_at_once(watch: Watch) -> None:
    """SIGTERM, as in a deploy."""
    eventually(lambda: watch.factor() < WHOLE, timeout=30)
    first = watch.alone()
    began = len(watch.seen)
    watch.processes[first].stop()
    assert watch.processes[first].exit_code == 0
    watch.is_followed_by(other(first))
    assert max(watch.seen[began:]) < WHOLE
