"""Connections of ours, for what joins no transaction of the caller.

A thread that writes takes one and gives it back: there are as many as threads write
at once. Autocommit: each statement is a transaction.
"""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from celery_pecker.carriers.carrier import Rows, Statement
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.settings import Settings

MOST_IDLE = 8
"""Connections that stay open while nobody writes."""


class OwnCarrier:
    """A connection of ours as a carrier: every statement commits."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @property
    def place(self) -> object:
        """Which database it is."""
        return self.database.where

    def require(self) -> None:
        """Ask for nothing: no transaction is joined."""

    def run(self, statement: Statement) -> Rows:
        """Return the rows of a statement."""
        return self.database.run(statement.label, **statement.params)

    def together(self, several: bool) -> AbstractContextManager[None]:
        """Give one transaction for several statements; a single one is its own."""
        return self.database.transaction() if several else nullcontext()


class OwnConnections:
    """A small pool of database seams, safe for threads and after a fork."""

    def __init__(self, settings: Settings, *, role: str) -> None:
        self._settings = settings
        self._role = role
        self._idle = _Idle(os.getpid(), deque())
        weakref.finalize(self, _close, self._idle)

    @contextmanager
    def one(self) -> Iterator[OwnCarrier]:
        """Give a connection that nobody else uses meanwhile.

        One whose server went away while it was idle is not given: whether a message
        sent over it was recorded would then be unknown for no reason.
        """
        self._after_fork()
        database = self._take()
        try:
            yield OwnCarrier(database)
        except BaseException:
            database.close()
            raise
        if database.connected and len(self._idle.databases) < MOST_IDLE:
            self._idle.databases.append(database)
        else:
            database.close()

    def close(self) -> None:
        """Close those that are idle."""
        _close(self._idle)

    def _take(self) -> Database:
        while True:
            try:
                database = self._idle.databases.pop()
            except IndexError:
                return Database.of(self._settings, role=self._role)
            if database.alive():
                return database
            database.close()

    def _after_fork(self) -> None:
        if self._idle.process != os.getpid():
            _close(self._idle)


@dataclass(slots=True)
class _Idle:
    """Connections that nobody uses, and the process that they are of."""

    process: int
    databases: deque[Database]


def _close(idle: _Idle) -> None:
    """Close connections; those of the process that this one was forked from are its.

    Nothing may be said to the server over them.
    """
    while idle.databases:
        database = idle.databases.pop()
        if idle.process == os.getpid():
            database.close()
        else:
            database.abandon()
    idle.process = os.getpid()
