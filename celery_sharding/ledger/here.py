"""One thread's way to the ledger."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from datetime import datetime
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from celery_pecker.database import Database
from celery_pecker.settings import Settings

if TYPE_CHECKING:
    from celery_sharding.ledger.control import Control
    from celery_sharding.ledger.outcomes import Outcomes
    from celery_sharding.ledger.plans import Plans
    from celery_sharding.ledger.reading import Reading
    from celery_sharding.ledger.shards import Shards
    from celery_sharding.ledger.submissions import Submissions
    from celery_sharding.ledger.tickets import Tickets
    from celery_sharding.ledger.upkeep import Upkeep

PACKAGE = "celery_sharding"
"""Whose statements the ledger runs."""


class Ledger:
    """All repositories over one connection. Not for two threads at once."""

    def __init__(
        self, database: Database, now: Callable[[], datetime | None] = lambda: None
    ) -> None:
        """``now``: tests' own time; None where the database's clock counts."""
        self.database = database
        self.now = now

    @cached_property
    def submissions(self) -> Submissions:
        """Calls, and the items that were given in them."""
        return self._made("submissions", "Submissions")

    @cached_property
    def plans(self) -> Plans:
        """Who plans, and what was planned."""
        return self._made("plans", "Plans")

    @cached_property
    def tickets(self) -> Tickets:
        """Who may run shards of a job."""
        return self._made("tickets", "Tickets")

    @cached_property
    def shards(self) -> Shards:
        """What is claimed, and how far it is."""
        return self._made("shards", "Shards")

    @cached_property
    def outcomes(self) -> Outcomes:
        """Closing of layers and jobs, Post, and what Celery is to be told."""
        return self._made("outcomes", "Outcomes")

    @cached_property
    def control(self) -> Control:
        """What users may do to a job."""
        return self._made("control", "Control")

    @cached_property
    def reading(self) -> Reading:
        """How things stand."""
        return self._made("reading", "Reading")

    @cached_property
    def upkeep(self) -> Upkeep:
        """What a dead process left, live executors, and the purge."""
        return self._made("upkeep", "Upkeep")

    def close(self) -> None:
        """Drop the connection, if there is one; the next statement makes another."""
        self.database.close()

    def _made(self, module: str, name: str) -> Any:
        """Return a repository; its module is loaded by those who use it."""
        kind = getattr(import_module(f"celery_sharding.ledger.{module}"), name)
        return kind(self.database, self.now)


class _Own(threading.local):
    """The ledgers of one thread, by whose and for what, and the process they are of."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.ledgers: dict[tuple[Settings, str], Ledger] = {}


_own = _Own()


def here(settings: Settings, *, role: str = "runner") -> Ledger:
    """Return this thread's own ledger, not connected before it is first asked.

    After a fork the parent's connection is let go without a word: both would talk on
    one socket, and each would get the other's answers.
    """
    if _own.process != os.getpid():
        for inherited in _own.ledgers.values():
            inherited.database.abandon()
        _own.ledgers = {}
        _own.process = os.getpid()
    found = _own.ledgers.get((settings, role))
    if found is None:
        found = Ledger(Database.of(settings, role=role, package=PACKAGE))
        weakref.finalize(found, _ended, found.database, os.getpid())
        _own.ledgers[settings, role] = found
    return found


def _ended(database: Database, process: int) -> None:
    """Its thread or process has ended, and the connection with it.

    In a child the parent's other threads end when it is forked: theirs go on.
    """
    if process == os.getpid():
        database.close()
    else:
        database.abandon()


_settings: weakref.WeakKeyDictionary[Any, Settings] = weakref.WeakKeyDictionary()


def at(app: Any, *, role: str = "runner") -> Ledger:
    """Return this thread's own ledger of a Celery app; its settings are read once."""
    settings = _settings.get(app)
    if settings is None:
        settings = _settings[app] = Settings.read(app.conf, main=app.main)
    return here(settings, role=role)
