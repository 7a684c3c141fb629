"""What user code can read of its run: which slot, which epoch, how long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from celery_pecker.runs.fence import hold, write
from celery_pecker.runs.run_facts import RunFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(RunFacts):
    """One run of one slot. Instants are aware, UTC, by the database's clock."""

    def guard(self, connection: Any) -> None:
        """Let no newer run start before the open transaction of `connection` ends.

        `connection` is the user's own, to the database of `pecker_dsn`, inside a
        transaction: psycopg, SQLAlchemy (Connection or Session), Django, or anything
        whose `cursor()` takes `%(name)s` parameters.

        Raises:
            Overtaken: a newer run was claimed, or started: write nothing.
            Misconfigured: no transaction is open, so nothing would be guarded.
        """
        hold(self, connection)

    def guarded(self, connection: Any, statement: Any, params: Any = None) -> Any:
        """Run the statement under the guard; return its cursor or result.

        Both in one transaction: that of the connection, else one of their own.
        """
        return write(self, connection, statement, params)


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
