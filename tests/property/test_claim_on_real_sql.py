"""The claim as a state machine: real SQL, instants of the test's choosing.

Replicas claim in any order, at any instant the clock shows, which is also stepped back
and forth; statements reach the server long after their sender gave up. The Python
arithmetic (grid) is the oracle.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import datetime

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from celery_pecker.kernel.clock import from_us
from celery_pecker.kernel.database import Database
from celery_pecker.schedules.engine.model import ClaimRequest, Delivery, Entry, Policy
from celery_pecker.schedules.engine.repository import Repository
from tests.oracle.grid import claimable
from tests.profiles import examples

SECOND = 1_000_000
SLACK = 5 * SECOND
START = 1_767_225_600 * SECOND
REPLICAS = 3
PERIODS = {"tenth": SECOND // 10, "second": SECOND, "odd": 7_333_333}


@pytest.fixture
def databases(dsn: str) -> Iterator[list[Database]]:
    """Give each replica its own connection."""
    found = [
        Database(dsn, schema="public", timeout=10.0, role="test")
        for _ in range(REPLICAS)
    ]
    yield found
    for database in found:
        database.close()


class Claims(RuleBasedStateMachine):
    """Some replicas, some entries, one clock that is not to be trusted."""

    databases: list[Database]

    @initialize()
    def begin(self) -> None:
        """Nobody has claimed anything."""
        self.now_us = START
        for database in self.databases:
            database.now = self.instant
        self.repositories = [Repository(one, uuid.uuid4()) for one in self.databases]
        self.databases[0]._connected().execute("truncate public.pecker_tasks")
        self.repositories[0].enroll([*PERIODS])
        self.rows = dict.fromkeys(PERIODS, (START, 0, 0))  # slot, era, missed
        self.epochs = dict.fromkeys(PERIODS, 0)
        self.slots: set[tuple[str, int, int]] = set()
        self.paused: set[str] = set()

    def instant(self) -> datetime:
        """Return what the database's clock shows."""
        return from_us(self.now_us)

    @rule(us=st.integers(0, 20 * SECOND))
    def pass_time(self, us: int) -> None:
        """Time goes on."""
        self.now_us += us

    @rule(us=st.integers(-700 * SECOND, 700 * SECOND))
    def step_the_clock(self, us: int) -> None:
        """Somebody mends the clock, or a replica with another one is promoted."""
        self.now_us += us

    @rule(name=st.sampled_from([*PERIODS]))
    def pause_or_resume(self, name: str) -> None:
        """Somebody wants no runs for a while: slots pass uncounted, on the grid."""
        self.paused ^= {name}
        self.databases[0].run(
            "pause_entry",
            name=name,
            paused=name in self.paused,
            by=None,
            now=None,
        )

    @rule(
        replica=st.integers(0, REPLICAS - 1),
        names=st.lists(st.sampled_from([*PERIODS]), min_size=1, unique=True),
        depth=st.sampled_from([1, 1, 1, 3]),
    )
    def claim(self, replica: int, names: list[str], depth: int) -> None:
        """A replica claims: it gets what the arithmetic says, each slot once."""
        wanted = [self._wanted(name, depth) for name in names]
        told, wins = self.repositories[replica].claim(
            wanted, until_us=self.now_us + SECOND
        )
        assert told == self.now_us
        won = {win.nth - 1: win for win in wins}
        for nth, name in enumerate(names):
            executed, era, missed = self.rows[name]
            expected = claimable(
                executed,
                PERIODS[name],
                self.now_us,
                ahead_us=wanted[nth].ahead_us,
                depth=depth,
            )
            win = won.get(nth)
            if expected is None:
                assert win is None
                continue
            assert win is not None
            slot, passed, stepped = expected
            if name in self.paused:
                passed = 0
            assert (win.due_us, win.passed) == (slot, passed)
            assert win.paused is (name in self.paused)
            assert win.era == era + stepped
            key = (name, win.due_us, win.era)
            assert key not in self.slots, "a slot was claimed twice (I5)"
            self.slots.add(key)
            assert win.epoch > self.epochs[name], "the epoch went back (I3)"
            assert win.epoch >= self.now_us, "an epoch that a failover could repeat"
            self.epochs[name] = win.epoch
            self.rows[name] = (slot, win.era, missed + passed)

    @rule(replica=st.integers(0, REPLICAS - 1), late=st.integers(0, 100 * SECOND))
    def claim_after_the_sender_gave_up(self, replica: int, late: int) -> None:
        """A statement that was stuck on its way takes nothing (I2)."""
        wanted = [self._wanted(name, 1) for name in PERIODS]
        _, wins = self.repositories[replica].claim(wanted, until_us=self.now_us - late)
        assert wins == []

    @invariant()
    def the_table_says_the_same(self) -> None:
        """Rows, eras and missed counts are the oracle's."""
        rows = (
            self.databases[0]
            ._connected()
            .execute(
                "select name, (extract(epoch from executed_at) * 1000000)::bigint, era,"
                " missed from public.pecker_tasks"
            )
        )
        assert {name: rest for name, *rest in rows} == {
            name: [*row] for name, row in self.rows.items()
        }

    def _wanted(self, name: str, depth: int) -> ClaimRequest:
        entry = Entry(
            name=name,
            task="t",
            described="",
            period_us=PERIODS[name],
            policy=Policy(delivery=Delivery.AT_MOST_ONCE, depth=depth),
        )
        return ClaimRequest(entry=entry, ahead_us=max(SLACK, PERIODS[name]))


def test_claims_are_exact_whatever_the_order_and_the_clock(
    databases: list[Database],
) -> None:
    """No slot twice, no epoch back, nothing uncounted, over random histories."""
    Claims.databases = databases
    run_state_machine_as_test(
        Claims,
        settings=settings(
            max_examples=examples(40),
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[*HealthCheck],
        ),
    )
