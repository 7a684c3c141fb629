"""A connection to PostgreSQL that waits no longer than its budget."""

from __future__ import annotations

import re
from typing import Any, Self, TypeVar

import psycopg
from psycopg import conninfo
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus

from celery_pecker.kernel import hosts
from celery_pecker.kernel.errors import Misconfigured

Result = TypeVar("Result")
_SQLALCHEMY = re.compile(r"postgres(ql)?\+\w+://")
"""A URL that names a driver, which libpq does not know."""
LEAST_FOR_CONNECTING = 2.0
"""Seconds for all hosts together, where there is no earlier deadline."""


class BoundedConnection(hosts.Connection[tuple[Any, ...]]):
    """A connection that waits no longer than its budget for anything."""

    budget: float | None = None

    @classmethod
    def within(cls, dsn: str, seconds: float, **options: Any) -> Self:
        """Connect within so many seconds, of which each host gets its share."""
        with hosts.within(seconds):
            return cls.connect(dsn, **options)

    def wait(
        self,
        gen: PQGen[Result],
        interval: float = 0.1,
        timeout: float | None = None,
    ) -> Result:
        """Run the protocol generator, within the budget.

        A statement that is struck, by a deadline or a signal, costs the connection: its
        answer would be taken for that of the next one.
        """
        try:
            return super().wait(gen, interval=interval, timeout=timeout or self.budget)
        except psycopg.Error:
            raise
        except BaseException:
            if self.info.transaction_status is TransactionStatus.ACTIVE:
                self.close()
            raise


def parameters_of(dsn: str) -> dict[str, Any]:
    """Return the parameters of a connection string.

    Raises:
        Misconfigured: it is none.
    """
    try:
        return conninfo.conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        # libpq's own words quote what it could not read, and that may be a secret.
        message = (
            "pecker_dsn is not a PostgreSQL connection string; allowed are"
            " 'postgresql://user@host/database' or 'host=… dbname=…'"
        )
        if _SQLALCHEMY.match(dsn):
            message += "; SQLAlchemy's '+driver' is to be left out"
        raise Misconfigured(message) from None
