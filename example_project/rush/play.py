"""One act: 4,000 reminders fall due, and it is looked at until the last has run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory

import numpy as np
import psycopg
from psycopg import sql

from celery_pecker.kernel.clock import SYSTEM, new_id, pause
from celery_pecker.kernel.migrations import migrate
from celery_pecker.testing import eventually
from example_project.demo.stage import await_word, started
from example_project.pace import LOST_AFTER
from example_project.processes import ProcessContainer
from example_project.rush.app import LIMIT, MEETINGS, PERIOD
from example_project.rush.look import Looker, Sight, Visit
from example_project.store import statements
from throttle.store.redis import RedisStore

WORKERS = 2
THREADS = 16
AFTER = 1.0
"""Seconds that are looked at after the last reminder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What was seen of one rush hour."""

    gate: bool
    limit: float
    told: int
    """Meetings whose people were told."""
    missing: Sequence[int]
    """Meetings whose people were not."""
    twice: int
    """Reminders that ran again."""
    lasted: float
    """Seconds from the moment when all fell due to the last reminder."""
    sights: Sequence[Sight]
    visits: Sequence[Visit]

    @property
    def peak(self) -> float:
        """The greatest traffic, in statements per second."""
        return max((one.steady for one in self.sights), default=0.0)

    @property
    def busiest(self) -> int:
        """The most connections at work at once."""
        return max((one.busy for one in self.sights), default=0)

    @property
    def front_page(self) -> float:
        """Seconds for which 95 of 100 visitors wait at most, while reminders run."""
        took = [one.took for one in self.visits if one.at <= self.lasted]
        return float(np.percentile(took, 95)) if took else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an act is played."""

    dsn: str
    redis: str
    key_prefix: str = ""
    meetings: int = MEETINGS
    limit: float = LIMIT
    period: float = PERIOD


def play(place: Place, *, gate: bool, tell: Callable[[str], None]) -> Act:
    """Return what was seen; tables and keys are those of this act alone."""
    schema = f"rush_{new_id().hex[:8]}"
    with ExitStack() as kept:
        folder = kept.enter_context(TemporaryDirectory(prefix="rush-"))
        _prepare(place, schema)
        prefix = f"{place.key_prefix}{schema}:"
        env = {
            "RUSH_DSN": place.dsn,
            "RUSH_REDIS_URL": place.redis,
            "RUSH_KEY_PREFIX": prefix,
            "RUSH_SCHEMA": schema,
            "RUSH_HEARTBEATS": folder,
            "RUSH_MEETINGS": str(place.meetings),
            "RUSH_PERIOD": str(place.period),
            "RUSH_LIMIT": str(place.limit),
            "RUSH_SHADOW": "" if gate else "1",
        }
        workers = [
            _started(kept, f"reminders-{number}", _worker(number), env)
            for number in range(WORKERS)
        ]
        for worker in workers:
            await_word(worker, " ready.")
        store = RedisStore(place.redis, prefix=f"{prefix}throttle", timeout=1.0)
        kept.callback(store.close)
        scheduler = _started(kept, "rush-scheduler", _BEAT, env)
        await_word(scheduler, "pecker: ready")
        tell(f"{place.meetings:,} reminders fall due in {place.period:g} s")
        with psycopg.connect(place.dsn, autocommit=True) as connection:
            due = _due(connection, schema, place.period)
            with Looker(place.dsn, store) as looker:
                _await_all(lambda: _claimed(connection, schema), place.meetings)
                # Once is enough: the next slots would be another rush.
                scheduler.stop()
                tell("the scheduler may go: all reminders are on their way")
                _await_all(lambda: _reminded(connection)[0], place.meetings)
                ended = SYSTEM.monotonic()
                eventually(lambda: SYSTEM.monotonic() > ended + AFTER)
            told, twice = _reminded(connection)
            missing = _missing(connection, place.meetings)
            connection.execute(
                sql.SQL("drop schema {} cascade").format(sql.Identifier(schema))
            )
    begin = due - looker.began
    return Act(
        gate=gate,
        limit=place.limit,
        told=told,
        missing=missing,
        twice=twice,
        lasted=ended - looker.began - begin,
        sights=[_since(begin, one) for one in looker.sights],
        visits=[Visit(at=one.at - begin, took=one.took) for one in looker.visits],
    )


def _since(begin: float, one: Sight) -> Sight:
    return replace(one, at=one.at - begin)


def _prepare(place: Place, schema: str) -> None:
    migrate(place.dsn, schema=schema)
    with psycopg.connect(place.dsn, autocommit=True) as connection:
        connection.execute("drop table if exists people, reminders")
        connection.execute(statements()["rush_schema"].encode())


def _due(
    connection: psycopg.Connection[tuple[int, ...]], schema: str, period: float
) -> float:
    """Return the moment of the monotonic clock at which all reminders fall due."""
    query = sql.SQL(
        "select extract(epoch from min(executed_at) - clock_timestamp()) from {}"
    ).format(sql.Identifier(schema, "pecker_tasks"))
    found: list[float] = []

    def enrolled() -> bool:
        row = connection.execute(query).fetchone()
        if row is None or row[0] is None:
            return False
        found.append(float(row[0]))
        return True

    eventually(enrolled, LOST_AFTER, "the reminders are in the table")
    return SYSTEM.monotonic() + found[-1] + period


def _claimed(connection: psycopg.Connection[tuple[int, ...]], schema: str) -> int:
    """Return how many reminders were claimed once."""
    query = sql.SQL("select count(*) from {} where name like 'remind-%%' and epoch > 0")
    table = sql.Identifier(schema, "pecker_tasks")
    row = connection.execute(query.format(table), []).fetchone()
    return row[0] if row else 0


def _missing(
    connection: psycopg.Connection[tuple[int, ...]], meetings: int
) -> Sequence[int]:
    asked = statements()["not_reminded"].encode()
    return [row[0] for row in connection.execute(asked, {"meetings": meetings})]


def _await_all(count: Callable[[], int], wanted: int) -> None:
    """Wait until the count is reached, or has not grown for long.

    How long all of them take is the machine's affair; what lacks is told afterwards.
    """
    seen, grew = count(), SYSTEM.monotonic()
    while seen < wanted and SYSTEM.monotonic() < grew + LOST_AFTER:
        pause(0.05)
        if (now := count()) > seen:
            seen, grew = now, SYSTEM.monotonic()


def _reminded(connection: psycopg.Connection[tuple[int, ...]]) -> tuple[int, int]:
    row = connection.execute(statements()["reminded"].encode()).fetchone()
    return (int(row[0]), int(row[1])) if row else (0, 0)


_BEAT = ("beat", "-S", "pecker", "--pidfile=", "-l", "INFO")


def _worker(number: int) -> tuple[str, ...]:
    return (
        *("worker", "-n", f"reminders-{number}@%h", "-P", "threads"),
        *("-c", str(THREADS), "-l", "INFO", "--without-gossip", "--without-mingle"),
    )


def _started(
    kept: ExitStack, name: str, command: Sequence[str], env: dict[str, str]
) -> ProcessContainer:
    app = ("-m", "celery", "-A", "example_project.rush.app")
    return started(kept, name, (*app, *command), env)
