"""The service's seam to its tables: labelled statements, kept trying for a while.

A connection belongs to a thread, is made when first needed and made anew when the
server went away. Every statement may be sent again after a lost reply (see
``sql/*.sql``: rows have ids given by the caller), so `Store.rows` simply repeats it
until its patience is over.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

import psycopg

from celery_pecker.kernel.clock import SYSTEM, Clock, pause

LABEL = re.compile(r"^/\* example_project:(\w+) \*/$", re.MULTILINE)
LOST_SERVER = (psycopg.OperationalError, psycopg.InterfaceError)
BETWEEN_TRIES = 0.1


@cache
def statements() -> dict[str, str]:
    """Return every statement of the service by its label."""
    found: dict[str, str] = {}
    for file in (resources.files(__package__) / "sql").iterdir():
        marks = list(LABEL.finditer(text := file.read_text()))
        ends = [mark.start() for mark in marks[1:]] + [len(text)]
        for mark, end in zip(marks, ends, strict=True):
            found[mark[1]] = text[mark.start() : end].strip()
    return found


class Store:
    """Runs labelled statements on the calling thread's own connection."""

    def __init__(
        self, dsn: str, *, patience: float = 5.0, clock: Clock = SYSTEM
    ) -> None:
        self.dsn = dsn
        self._patience = patience
        self._clock = clock
        self._local = threading.local()

    def rows(self, label: str, **params: object) -> Sequence[tuple[Any, ...]]:
        """Return what the statement answers; psycopg's error once patience is over."""
        began = self._clock.monotonic()
        query = statements()[label].encode()
        while True:
            try:
                with self._connection().cursor() as cursor:
                    cursor.execute(query, params or None)
                    return cursor.fetchall() if cursor.description else ()
            except LOST_SERVER:
                self.close()
                if self._clock.monotonic() - began > self._patience:
                    raise
                pause(BETWEEN_TRIES)

    def row(self, label: str, **params: object) -> tuple[Any, ...] | None:
        """Return the first row that the statement answers, if any."""
        return next(iter(self.rows(label, **params)), None)

    def close(self) -> None:
        """Drop the calling thread's connection, if it has one."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def _connection(self) -> psycopg.Connection:
        connection: psycopg.Connection | None
        connection = getattr(self._local, "connection", None)
        if connection is None or connection.closed:
            connection = psycopg.connect(
                self.dsn,
                autocommit=True,
                connect_timeout=2,
                application_name="meetings",
                options="-c statement_timeout=3s",
            )
            self._local.connection = connection
        return connection
