"""Figures of limits: what workers see of a database behind the gate."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import cast

import psycopg
import pytest

from celery_pecker.kernel.database import Database
from celery_pecker.kernel.settings import Settings as Pecker
from celery_pecker.surfaces.views.history import PointRow, past
from tests.integration.throttle.worker.conftest import stands as stands  # noqa: PLC0414  # a fixture
from tests.integration.throttle.worker.stand import Stand
from tests.unit.throttle.doubles import Clock, Counting, seen
from throttle.exchange import Snapshot
from throttle.model import Amount, ExchangeAnswer, Holding, Store
from throttle.settings import Settings
from throttle.store.redis import RedisStore
from throttle.worker.figures import FOLDER, LimitFigures, figures_of

HOUR_US = 3_600_000_000
IDLE = Holding(want=0.0, limit=Amount(100.0))
GATE = Settings.read(
    {
        "throttle_redis_url": "redis://localhost/1",
        "throttle_limits": {"main": 100, "other": 1000},
    }
)


class Worker:
    """What a worker sees, moment by moment."""

    def __init__(self, dsn: str, clock: Clock) -> None:
        pecker = Pecker.read({"pecker_dsn": dsn}, main="proj")
        self.clock = clock
        self.figures = LimitFigures(pecker, GATE, store(clock), clock)

    def see(
        self, traffic: float, holders: int, *, factor: float = 1.0, **told: Holding
    ) -> None:
        """It hears so much of each database for a tenth of a second."""
        one = replace(seen(traffic, factor=factor), holders=holders)
        answer = ExchangeAnswer(at=0.0, databases=dict.fromkeys(told, one))
        self.clock.now += 0.1
        self.figures.note(told, Snapshot(answer, self.clock.now, away=False))

    def leave(self) -> None:
        """It ends, and writes what it has."""
        self.figures.loop.stop()
        self.figures.loop.run()


def store(clock: Clock) -> Store:
    """Return a store that nothing is asked of."""
    return cast("Store", Counting(clock))


@pytest.fixture
def database(dsn: str) -> Iterator[Database]:
    """Give the seam."""
    found = Database(dsn, schema="public", timeout=5.0, role="test")
    yield found
    found.close()


def total(database: Database, name: str = "main") -> PointRow:
    """Return what the last hour came to."""
    return past(database, "limit", name, length_us=HOUR_US).total


def test_workers_add_up_and_what_all_hear_alike_does_not(
    dsn: str, database: Database
) -> None:
    """Each is one of two: what they hold and admit is a sum, traffic is not."""
    for held in (30, 10):
        worker = Worker(dsn, Clock())
        for nth in range(1, 11):
            told = replace(IDLE, held=held, admitted=5 * nth)
            worker.see(80.0, 2, factor=0.5, main=told)
        worker.leave()
    found = total(database)
    assert (found.held, found.traffic, found.in_force) == (40.0, 80.0, 50.0)
    assert (found.admitted, found.peak) == (100, 80)


def test_one_that_writes_nothing_does_not_make_traffic_less(
    dsn: str, database: Database
) -> None:
    """An older version in a deploy, or a role without the right: means stay means."""
    worker = Worker(dsn, Clock())
    for _ in range(10):
        worker.see(80.0, 2, main=replace(IDLE, held=10))
    worker.leave()
    found = total(database)
    assert (found.traffic, found.held) == (80.0, 20.0)


def test_a_restart_counts_from_nothing_and_an_outage_of_the_store_is_not_seen(
    dsn: str, database: Database
) -> None:
    """What a new life has admitted is all new; without an answer nothing is known."""
    for _ in range(2):
        worker = Worker(dsn, Clock())
        worker.see(60.0, 1, main=replace(IDLE, admitted=7))
        worker.clock.now += 100.0
        stale = Snapshot(None, 0.0, away=True)
        worker.figures.note({"main": replace(IDLE, held=99, admitted=8)}, stale)
        worker.leave()
    found = total(database)
    assert (found.admitted, found.traffic, found.held) == (16, 60.0, 0.0)


def test_a_store_that_never_answered_leaves_what_was_let_in(
    dsn: str, database: Database
) -> None:
    """Its policy let tasks in; and a worker that has seen nothing writes nothing."""
    Worker(dsn, Clock()).leave()
    worker = Worker(dsn, Clock())
    never = Snapshot(None, 0.0, away=True)
    worker.figures.note({"main": replace(IDLE, admitted=8)}, never)
    worker.leave()
    found = total(database)
    assert (found.admitted, found.traffic, found.held) == (8, None, None)


def test_all_limits_together_are_a_sum_of_databases(
    dsn: str, database: Database
) -> None:
    """Their traffic adds up; the most of each was not at one moment."""
    worker = Worker(dsn, Clock())
    for _ in range(10):
        one = replace(IDLE, held=3, admitted=4)
        worker.see(80.0, 1, main=one, other=one)
    worker.leave()
    found = total(database, "")
    assert (found.held, found.traffic, found.in_force) == (6.0, 160.0, 1100.0)
    assert (found.admitted, found.peak) == (8, None)


def test_without_tables_or_history_nothing_is_written() -> None:
    """Many have a gate and no database of ours: nothing is said, nothing is tried."""

    class App:
        main = "proj"

        def __init__(self, **conf: object) -> None:
            self.conf = conf

    assert figures_of(App(), GATE, store(Clock())) is None
    off = App(pecker_dsn="host=localhost", pecker_history=0)
    assert figures_of(off, GATE, store(Clock())) is None


def test_one_of_all_workers_folds(redis_url: str, dsn: str) -> None:
    """An app need not have a scheduler that does."""
    stores = [RedisStore(redis_url, prefix=dsn.rpartition("/")[2]) for _ in range(2)]
    pecker = Pecker.read({"pecker_dsn": dsn}, main="proj")
    workers = [LimitFigures(pecker, GATE, one) for one in stores]
    for _ in range(2):
        assert [one.elected() for one in workers] == [True, False]
    stores[0].elect(FOLDER, workers[0].holder.hex, 0.0)
    assert workers[1].elected()
    for one in stores:
        one.close()


@pytest.mark.cluster
def test_a_worker_writes_what_it_has_let_in(
    stands: Callable[..., Stand], dsn: str, database: Database
) -> None:
    """A real one, as it ends; beside the gate it needs the address of the tables."""
    stand = stands()
    worker = stand.start(pecker_dsn=dsn)
    names = [f"n{number}" for number in range(20)]
    stand.send("gated", *names)
    stand.until(stand.ran_all(*names), "all ran")
    stand.until(lambda: stand.inspect()["databases"]["main"]["traffic"], "heard")
    worker.stop()
    found = total(database)
    assert found.admitted == 20
    assert found.in_force == pytest.approx(10_000, rel=0.01)  # of whole ms
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("select figures::text from pecker_figures").fetchall()
    assert any("limit main" in json.loads(text) for (text,) in rows)
