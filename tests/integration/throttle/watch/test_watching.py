"""Who watches, and what reaches the store: real Redis, real PostgreSQL."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import psycopg
import pytest

from celery_pecker.testing import EmbeddedPostgres, EmbeddedRedis, eventually
from tests.integration.throttle.watch import forking
from tests.integration.throttle.watch.backend import LOCK, at_work
from tests.told import telling
from throttle.errors import Misconfigured
from throttle.model import Amount, DatabaseReport, Report, Sample
from throttle.settings import Settings
from throttle.store.redis import RedisStore
from throttle.watch import Watcher, Watching, start
from throttle.watch.limit_factor import FLOOR, RECOVERY


def settings(dsn: str, **watch: float) -> Settings:
    """Return a limit of 1,000 per second on a watched server."""
    return Settings.read(
        {
            "throttle_redis_url": "redis://not.asked",
            "throttle_estimator": "fast",
            "throttle_limits": {
                "main": {"operations": 1_000, "watch": {"dsn": dsn, **watch}},
                "other": 5,
            },
        }
    )


@pytest.fixture
def store(redis_url: str) -> Iterator[RedisStore]:
    """Give the store in Redis."""
    made = RedisStore(redis_url)
    yield made
    made.close()


@pytest.fixture
def watched(store: RedisStore, empty_dsn: str) -> Iterator[Callable[..., Watcher]]:
    """Give a function that makes watchers, which the test turns by hand."""
    with ExitStack() as stack:

        def make(
            holder: str, clock: list[float], dsn: str = empty_dsn, **watch: float
        ) -> Watcher:
            given = settings(dsn, **(watch or {"active": 0.5}))
            made = Watcher(given, given.limits["main"], store, holder, lambda: clock[0])
            stack.callback(made.leave)
            return made

        yield make


@pytest.fixture
def busy(postgres_server: object, empty_dsn: str) -> Iterator[Callable[[], None]]:
    """One backend works until it is told to end."""
    with (
        psycopg.connect(empty_dsn, autocommit=True) as holder,
        holder.cursor() as cursor,
    ):
        cursor.execute("select pg_advisory_lock(%s)", [LOCK])
        with at_work(empty_dsn) as pid:
            eventually(lambda: not idle(holder, pid))

            def end() -> None:
                cursor.execute("select pg_advisory_unlock(%s)", [LOCK])
                eventually(lambda: idle(holder, pid))

            yield end


def idle(connection: psycopg.Connection[tuple[object, ...]], pid: int) -> bool:
    """Say whether a backend does nothing."""
    rows = connection.execute(
        "select 1 from pg_stat_activity where pid = %s and state = 'active'", [pid]
    )
    return rows.fetchone() is None


def traffic(store: RedisStore, operations: float) -> None:
    """So much is counted just now."""
    told = DatabaseReport(samples=(Sample(0.0, Amount(operations)),))
    store.exchange(Report(holder="web", name="web", databases={"main": told}))


def factor(store: RedisStore) -> float:
    """Return how much of the limit is in force, as all processes hear."""
    report = Report(holder="asks", name="asks", databases={"main": DatabaseReport()})
    return store.exchange(report).databases["main"].factor


def test_a_busy_server_lowers_the_limit_until_it_is_well(
    store: RedisStore, watched: Callable[..., Watcher], busy: Callable[[], None]
) -> None:
    """All hear the factor, and people read why."""
    now = [0.0]
    watcher = watched("w1", now, active=0.9)
    traffic(store, 500)
    watcher.round()
    assert factor(store) == 0.8
    assert "active backends, of 0.9" in store.look()["main"].signal
    now[0] += 3
    traffic(store, 500)
    watcher.round()
    assert factor(store) == pytest.approx(0.64)
    busy()
    for expected in (0.69, 0.74):
        now[0] += 1
        watcher.round()
        assert factor(store) == pytest.approx(expected)
    for _ in range(2):
        now[0] += 0.13 / RECOVERY
        watcher.round()
    assert factor(store) == 1.0
    assert store.look()["main"].signal == ""


def test_trouble_without_our_traffic_lowers_nothing(
    store: RedisStore, watched: Callable[..., Watcher], busy: Callable[[], None]
) -> None:
    """It comes from elsewhere."""
    watcher = watched("w1", [0.0])
    traffic(store, 20)
    watcher.round()
    assert factor(store) == 1.0
    assert watcher.elected


def test_one_of_two_watches_and_the_other_takes_over_where_it_stood(
    store: RedisStore, watched: Callable[..., Watcher], busy: Callable[[], None]
) -> None:
    """The factor is the store's, not the watcher's."""
    now = [0.0]
    first, second = watched("w1", now), watched("w2", now)
    traffic(store, 500)
    for watcher in (first, second, first, second):
        watcher.round()
    assert [one.elected for one in (first, second)] == [True, False]
    assert factor(store) == 0.5
    first.leave()
    now[0] += 3
    traffic(store, 500)
    second.round()
    first.round()
    assert [one.elected for one in (first, second)] == [False, True]
    assert factor(store) == 0.25, "it went on from what it found"


def test_the_floor_holds(
    store: RedisStore, watched: Callable[..., Watcher], busy: Callable[[], None]
) -> None:
    """However long it lasts, somebody runs."""
    now = [0.0]
    watcher = watched("w1", now)
    for _ in range(6):
        traffic(store, 500)
        watcher.round()
        now[0] += 3
    assert factor(store) == FLOOR


def test_one_that_sees_nothing_lets_others_try(
    store: RedisStore, watched: Callable[..., Watcher], busy: Callable[[], None]
) -> None:
    """It may be the only one that cannot reach the server."""
    now = [0.0]
    nowhere = "postgresql://postgres@127.0.0.1:1/x"
    blind, seeing = watched("w1", now, nowhere), watched("w2", now)
    for _ in range(12):
        blind.round()
        seeing.round()
        now[0] += 1
    assert blind.verdict.silent > 10
    traffic(store, 500)

    def other_has_it() -> bool:
        blind.round()
        seeing.round()
        return seeing.elected and not blind.elected

    eventually(other_has_it)


def test_redis_away_stops_no_watcher(
    own_redis: Callable[..., EmbeddedRedis],
    empty_dsn: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It says so, once a minute, and goes on when Redis is back."""
    redis = own_redis(fast=True)
    store = RedisStore(redis.url)
    given = settings(empty_dsn, active=50)
    watcher = Watcher(given, given.limits["main"], store, "w1")
    redis.kill()
    with caplog.at_level(logging.WARNING, "throttle"):
        for _ in range(3):
            watcher.round()
    assert caplog.text.count("no watch over main now") == 1
    redis.start()
    watcher.round()
    assert watcher.elected
    watcher.leave()
    store.close()


@pytest.fixture
def watching(store: RedisStore) -> Iterator[Callable[..., Watching]]:
    """Give a function that starts the threads, as a worker does."""
    with ExitStack() as stack:

        def begin(holder: str, dsn: str, **watch: float) -> Watching:
            made = start(settings(dsn, **watch), store, holder)
            stack.callback(made.stop)
            return made

        yield begin


def test_threads_watch_and_leave(
    store: RedisStore, empty_dsn: str, watching: Callable[..., Watching]
) -> None:
    """Only databases that are watched; the next one need not wait for a lease."""
    first = watching("w1", empty_dsn, active=50)
    assert first.watchers.keys() == {"main"}
    eventually(lambda: first.watchers["main"].elected)
    alive = [first.alive]
    first.stop()
    assert [*alive, first.alive] == [True, False]
    second = watching("w2", empty_dsn, active=50)
    eventually(lambda: second.watchers["main"].elected, timeout=30.0)


def test_a_wrong_address_is_refused_at_the_start(store: RedisStore) -> None:
    """Nothing is started then."""
    with pytest.raises(Misconfigured, match="watch"):
        start(settings("no address", active=1), store, "w1")


def test_a_fork_leaves_the_connection_to_its_parent(
    own_postgres: Callable[..., EmbeddedPostgres], redis_url: str
) -> None:
    """Else it stays open on the server for as long as a child of the pool lives."""
    server = own_postgres(fast=True)
    parent = subprocess.Popen(
        [sys.executable, "-m", forking.__name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={
            **telling(redis_url, server.dsn),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        },
        text=True,
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    with (
        parent.stdout,
        parent.stdin,
        psycopg.connect(server.dsn, autocommit=True) as connection,
    ):

        def watchers() -> int:
            rows = connection.execute(
                "select 1 from pg_stat_activity where application_name = %s",
                ["throttle:watch"],
            )
            return len(rows.fetchall())

        assert parent.stdout.readline() == "forked\n"
        assert watchers() == 1
        parent.kill()
        parent.wait(30.0)
        eventually(lambda: watchers() == 0)
