"""What every repository of the ledger has: a database, and tests' own time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from kombu.utils.json import dumps
from psycopg import errors
from psycopg.types.json import Jsonb

from celery_pecker.kernel.database import Database
from celery_sharding.errors import DatabaseUnavailable


class Repository:
    """Runs the statements of one room of the ledger."""

    def __init__(
        self, database: Database, now: Callable[[], datetime | None] = lambda: None
    ) -> None:
        """Take the database; ``now`` is None where the database's clock counts."""
        self.database = database
        self.now = now

    def _run(self, label: str, **params: object) -> Sequence[tuple[Any, ...]]:
        """Return the rows of a statement; tests pass their own time."""
        return self.database.run(label, now=self.now(), **params)

    def _change(self, label: str, **params: object) -> int:
        """Return how many rows a statement changed."""
        return self.database.change(label, now=self.now(), **params)

    def _run_one(self, label: str, **params: object) -> tuple[Any, ...] | None:
        """Return the row of a statement that writes one at most; None for none."""
        return self.database.run_one(label, now=self.now(), **params)

    def _change_one(self, label: str, **params: object) -> bool:
        """Change one row; return False for none."""
        return self.database.change_one(label, now=self.now(), **params)

    @contextmanager
    def bounded(self, idle: float) -> Iterator[None]:
        """Run the block in one transaction: all of it or nothing.

        A process that is frozen inside keeps others waiting on its rows for as many
        seconds, no longer: then the server undoes it (DatabaseUnavailable).
        """
        try:
            with self.database.transaction():
                self._run("bound_transaction", idle_ms=max(round(idle * 1000), 1))
                yield
        except errors.IdleInTransactionSessionTimeout as error:
            self.database.close()
            message = (
                f"a transaction was idle for {idle:g} s:"
                " the server undid it, and nothing was written"
            )
            raise DatabaseUnavailable(message) from error


def jsonb(value: Any) -> Jsonb:
    """Return a parameter that is written as Celery writes JSON: times and ids too."""
    return Jsonb(value, dumps=dumps)
