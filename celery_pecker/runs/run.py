"""What user code can read of its run: which slot, by which epoch, until when.

And guarded writes: nothing of an overtaken run is written. The row of the entry in
`pecker_fences` names the last run that started. A transaction that holds the row keeps
newer runs from starting until it ends; a run that finds a newer run there writes
nothing (I3). It works where the user's tables live in the database of `pecker_dsn`;
elsewhere a column `epoch` of one's own does it (docs/how-to/guarded-writes.md).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from celery_pecker.kernel.clock import to_us
from celery_pecker.kernel.errors import Misconfigured, Overtaken
from celery_pecker.kernel.sql import OURS, rendered


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of one slot. Instants are aware, UTC, by the database's clock."""

    name: str
    """The entry's name."""
    due_at: datetime
    """The slot's instant."""
    era: int
    """How often the database's clock was found to have stepped back."""
    epoch: int
    """The fencing token: a newer run of this entry has a higher one."""
    deadline: datetime | None
    """When the run must have ended; None: it may take as long as it likes."""
    attempt: int = 0
    """Which retry of the task it is, from 0."""
    schema: str = "public"
    """The PostgreSQL schema that holds the entry."""
    inherited: bool = False
    """Whether this task is no run itself but was sent by one."""

    @property
    def due_us(self) -> int:
        """The slot's instant in whole microseconds since 1970."""
        return to_us(self.due_at)

    @property
    def params(self) -> dict[str, object]:
        """What statements of its fence are asked with."""
        return {
            "name": self.name,
            "era": self.era,
            "due": self.due_at,
            "attempt": self.attempt,
            "epoch": self.epoch,
            "deadline": self.deadline,
        }

    def guard(self, connection: Any) -> None:
        """Let no newer run start before the open transaction of `connection` ends.

        `connection` is the user's own, to the database of `pecker_dsn`, inside a
        transaction: psycopg, SQLAlchemy (Connection or Session), Django, or anything
        whose `cursor()` takes `%(name)s` parameters.

        Raises:
            Overtaken: a newer run was claimed, or started: write nothing.
            Misconfigured: no transaction is open, so nothing would be guarded.
        """
        held = _ask(self, connection)
        if _idle(connection):
            raise Misconfigured(NOT_OPEN)
        if not held:
            raise Overtaken(
                f"the run of {self.name!r} due {self.due_at.isoformat()} (epoch"
                f" {self.epoch}, attempt {self.attempt}) is overtaken: a newer one was"
                " claimed or has started; nothing may be written"
            )

    def guarded(self, connection: Any, statement: Any, params: Any = None) -> Any:
        """Run the statement under the guard; return its cursor or result.

        Both in one transaction: that of the connection, else one of their own.
        """
        with _transaction(connection):
            self.guard(connection)
            return _execute(connection, statement, params)


NOT_OPEN = (
    "Run.guard needs an open transaction that also does the writing: without one the"
    " guard ends with its own statement. Open one, or call Run.guarded"
)


def _ask(run: Run, connection: Any) -> bool:
    """Return whether the fence is held, by the transaction of the connection."""
    text = rendered(OURS, run.schema)["hold_fence"]
    params = {"now": None, **run.params}
    if isinstance(connection, psycopg.Connection):
        with connection.cursor(row_factory=tuple_row) as cursor:
            row: Any = cursor.execute(text.encode(), params).fetchone()
    else:
        row = _execute(connection, text, params).fetchone()
    (held,) = row.values() if isinstance(row, Mapping) else row
    return bool(held)


def _idle(connection: Any) -> bool:
    """Return whether no transaction is open after the guard: it has guarded nothing.

    Asked of the driver, since SQL cannot tell; a driver that is not known is trusted.
    """
    driver = connection
    if _is_sqlalchemy(connection):
        driver = _plain(connection).connection.driver_connection
    elif _is_django(connection):
        driver = connection.connection
    if isinstance(driver, psycopg.Connection):
        return driver.info.transaction_status is TransactionStatus.IDLE
    ask = getattr(driver, "get_transaction_status", None)  # psycopg2
    return ask is not None and ask() == TransactionStatus.IDLE


def _execute(connection: Any, statement: Any, params: Any) -> Any:
    """Run a statement on whatever it is that the user has."""
    if _is_sqlalchemy(connection):
        if not isinstance(statement, str):
            return connection.execute(statement, params)
        return _plain(connection).exec_driver_sql(statement, params)
    cursor = connection.cursor()
    cursor.execute(statement, params)
    return cursor


def _transaction(connection: Any) -> Any:
    if isinstance(connection, psycopg.Connection):
        return connection.transaction()
    if _is_sqlalchemy(connection):
        if connection.in_transaction():
            return connection.begin_nested()
        return connection.begin()
    if _is_django(connection):
        from django.db import transaction  # noqa: PLC0415  # only where Django is

        return transaction.atomic(using=connection.alias)
    return nullcontext()


def _is_sqlalchemy(connection: Any) -> bool:
    return hasattr(connection, "begin_nested") and hasattr(connection, "in_transaction")


def _is_django(connection: Any) -> bool:
    return hasattr(connection, "alias") and hasattr(connection, "in_atomic_block")


def _plain(connection: Any) -> Any:
    """Return what takes the driver's own SQL: a connection does, a session has one."""
    takes = hasattr(connection, "exec_driver_sql")
    return connection if takes else connection.connection()


_current: ContextVar[Run | None] = ContextVar("celery_pecker_run", default=None)


def current() -> Run | None:
    """Return the run that this code is part of, None outside of runs.

    It does not enter threads by itself: `celery_pecker.deadline.wrap` carries it.
    """
    return _current.get()


@contextmanager
def running(run: Run | None) -> Iterator[Run | None]:
    """Run the block as a part of that run."""
    token = _current.set(run)
    try:
        yield run
    finally:
        _current.reset(token)
