"""Replicas that look and send, turned by hand, on one database."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

import psycopg
import pytest

from celery_pecker.alarms.model import Notice
from celery_pecker.alarms.rules import read_rules
from celery_pecker.alarms.step import Evaluator, Rounds, Sending
from celery_pecker.alarms.tables import Tables
from celery_pecker.alarms.targets import to_log
from celery_pecker.kernel.clock import new_id
from celery_pecker.kernel.database import Database
from celery_pecker.schedules.engine.upkeep import TERM
from celery_pecker.testing.manual import ManualClock

INTERVAL = 10.0


@dataclass(kw_only=True)
class Watch:
    """One replica's alarms, without a thread."""

    rounds: Rounds
    sending: Sending
    tables: Tables
    database: Database
    holder: uuid.UUID
    rules: list[Any]
    got: list[Notice] = field(default_factory=list)
    """What the target `duty` was called with."""

    def turn(self) -> list[Notice]:
        """Look, if it is its turn, and send; return what `duty` got of it."""
        before = len(self.got)
        self.rounds.step()
        while self.sending.step():
            pass
        return self.got[before:]


class Starter(Protocol):
    """Makes them."""

    def __call__(
        self,
        rules: Mapping[str, Any],
        *,
        shut: Callable[[], Any] = frozenset,
        duty: Callable[[Notice], None] | None = None,
        timeout: float | None = None,
        **more: Any,
    ) -> Watch:
        """Return a replica's alarms that know one target, `duty`, beside the log."""
        ...


@pytest.fixture
def clock() -> ManualClock:
    """Give the clock of the database."""
    return ManualClock()


@pytest.fixture
def pass_time(clock: ManualClock) -> Callable[[float], None]:
    """Give what lets time pass."""
    return lambda seconds: clock.advance_us(round(seconds * 1_000_000))


@pytest.fixture
def watch(dsn: str, clock: ManualClock) -> Iterator[Starter]:
    """Give a way to make replicas that look."""
    with ExitStack() as stack:

        def make(
            rules: Mapping[str, Any],
            *,
            shut: Callable[[], Any] = frozenset,
            duty: Callable[[Notice], None] | None = None,
            timeout: float | None = None,
            **more: Any,
        ) -> Watch:
            database = Database(
                dsn, schema="public", timeout=10.0, role="test", now=clock.now
            )
            stack.callback(database.close)
            holder = new_id()
            tables = Tables(database, holder)
            known = read_rules(rules, {"duty": "proj:page"})
            got: list[Notice] = []
            rounds = Rounds(
                known,
                Evaluator(tables=tables, slack=5.0, term=TERM, shut=shut, **more),
                interval=INTERVAL,
                clock=clock,
            )
            return Watch(
                rounds=rounds,
                sending=Sending(
                    tables,
                    {"log": to_log, "duty": duty or got.append},
                    timeout=timeout,
                    clock=clock,
                ),
                tables=tables,
                database=database,
                holder=holder,
                rules=known,
                got=got,
            )

        yield make


class Rows:
    """What the tables hold."""

    def __init__(self, dsn: str, clock: ManualClock) -> None:
        self.connection = psycopg.connect(dsn, autocommit=True)
        self._clock = clock

    def ago(self, seconds: float) -> Any:
        """Return an instant so many seconds ago."""
        return self._clock.now() - timedelta(seconds=seconds)

    def run(self, statement: str, *params: object) -> list[tuple[Any, ...]]:
        """Run a statement of the test's own."""
        cursor = self.connection.execute(statement, params)
        return cursor.fetchall() if cursor.description else []

    def entry(
        self,
        name: str,
        *,
        last: float,
        period: float | None = 60.0,
        declared: float = 3_600.0,
        run: str = "dispatch",
        timeout: float | None = None,
    ) -> None:
        """Store an entry whose last slot was so many seconds ago."""
        self.run(
            "insert into pecker_tasks (name, executed_at, epoch) values (%s, %s, 1)"
            " on conflict (name) do update set executed_at = excluded.executed_at",
            *(name, self.ago(last)),
        )
        self.run(
            "insert into pecker_declarations"
            " (name, task, schedule, delivery, period_us,"
            " timeout_us, run, declared_until)"
            " values (%s, 't', 's', 'at_most_once', %s, %s, %s, %s)"
            " on conflict do nothing",
            name,
            None if period is None else round(period * 1e6),
            None if timeout is None else round(timeout * 1e6),
            *(run, self.ago(-declared)),
        )

    def states(self) -> dict[str, str]:
        """Return the state of each alarm, by its subject."""
        return dict(self.run("select subject, state from pecker_alarms"))

    def waiting(self) -> list[tuple[str, str]]:
        """Return the target and the event of each notice that waits."""
        return self.run("select target, event from pecker_alarm_notices order by id")


@pytest.fixture
def rows(dsn: str, clock: ManualClock) -> Iterator[Rows]:
    """Give the tables."""
    made = Rows(dsn, clock)
    yield made
    made.connection.close()
