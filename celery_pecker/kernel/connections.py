"""A few connections that the threads of a process share.

Greenlets and threads come one per task: a connection for each would be dear. They are
made on first use, so never before a fork, and a child leaves alone what its parent has.
A connection that was idle for long is not trusted: what lies between may have forgotten
it without a word.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from celery_pecker.kernel.clock import Clock
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import DatabaseUnavailable
from celery_pecker.kernel.settings import Settings

MAX_CONNECTIONS = 4
"""How many statements are under way at a time in one process."""
MAX_IDLE = 60.0
"""Seconds after which an unused connection is made anew."""


class Connections:
    """Lends connections, each for one exchange of bounded length."""

    def __init__(self, settings: Settings, clock: Clock, *, role: str) -> None:
        self._settings = settings
        self._clock = clock
        self._role = role
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._free: deque[tuple[float, Database]] = deque()
        self._places = threading.Semaphore(MAX_CONNECTIONS)

    @contextmanager
    def lend(self, within: float) -> Iterator[Database]:
        """Lend a connection that waits no longer than so many seconds for anything.

        Raises:
            DatabaseUnavailable: none was free in that time.
        """
        if os.getpid() != self._pid:
            self._begin()
        begun = self._clock.monotonic()
        places = self._places
        if not places.acquire(timeout=within):
            message = f"no connection was free within {within:.3f} s"
            raise DatabaseUnavailable(message)
        try:
            database = self._take()
            database.hurry(max(begun + within - self._clock.monotonic(), 0.001))
            try:
                yield database
            except BaseException:
                database.close()  # what it still does, or was told, is unknown
                raise
            self._free.append((self._clock.monotonic(), database))
        finally:
            places.release()

    def close(self) -> None:
        """Drop the connections that nobody uses."""
        while self._free:
            self._free.pop()[1].close()

    def _take(self) -> Database:
        now = self._clock.monotonic()
        while self._free:
            used, database = self._free.pop()
            if now - used < MAX_IDLE:
                return database
            database.close()
        return Database.of(self._settings, role=self._role)
