"""What beat and workers hold in their hands."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from celery_pecker import signals
from celery_pecker.alarms.evaluation import Held, Shut
from celery_pecker.heartbeat import Heart
from celery_pecker.history import HistoryWriter
from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.forks import abandon_in_forks
from celery_pecker.kernel.loop import Loop
from celery_pecker.replica.dispatching import Destination
from celery_pecker.replica.shared_history import SharedHistory
from celery_pecker.schedules.model import Entry
from celery_pecker.schedules.service import Service

LAST_BATCH = 0.4
"""Seconds that a stop waits for the batch in flight, so that a deploy loses no slot."""


@dataclass(slots=True)
class Tally:
    """What one replica did since it started."""

    won: int = 0
    missed: int = 0
    thread: int = 0
    """Events of other replicas of this process come on other threads."""

    def woke(self, event: signals.Woke) -> None:
        """Count what a wake-up won."""
        if threading.get_ident() == self.thread:
            self.won += event.won

    def missing(self, event: signals.Missed) -> None:
        """Count what will have no run."""
        if threading.get_ident() == self.thread:
            self.missed += event.slots


@dataclass(slots=True, kw_only=True, weakref_slot=True, eq=False)
class Replica:
    """A scheduler of this process, with its thread."""

    kind: str
    holder: str
    entries: list[Entry]
    loop: Loop
    service: Service
    databases: list[Database]
    destination: Destination
    heart: Heart
    history: SharedHistory | None
    writer: HistoryWriter | None
    """None: it is another replica's, or nobody writes."""
    shut: Shut | None
    """What its gate lets nothing through to; None: it cannot say."""
    held: Held
    """What its gate held back lately."""
    tally: Tally = field(default_factory=Tally)
    stopping: bool = False
    """Whether it was asked to stop: an end before that is a failure."""

    def __post_init__(self) -> None:
        """Be known to forks, and count."""
        abandon_in_forks(self)
        signals.woke.connect(self.tally.woke)
        signals.missed.connect(self.tally.missing)

    def start(self) -> None:
        """Start the loop."""
        if self.writer is not None:
            self.writer.start()
        self.loop.start()

    def stop(self) -> None:
        """Claim nothing more, and leave. Safe in a signal handler, idempotent."""
        self.stopping = True
        self.service.stop()
        self.loop.stop()

    def join(self, timeout: float = LAST_BATCH) -> bool:
        """Wait for the batch in flight; whether the loop has left."""
        return self.loop.join(timeout)

    def close_history(self, timeout: float = LAST_BATCH) -> None:
        """Have the last reports written, if that is possible at once."""
        if self.writer is not None:
            self.writer.stop()
            self.writer.join(timeout)

    @property
    def failure(self) -> str | None:
        """Why it ended without being asked to; None while all is well."""
        if self.loop.failure is not None:
            return str(self.loop.failure)
        if self.loop.dead:
            return "the scheduler's thread has ended; see the log above"
        return None

    @property
    def idle(self) -> float | None:
        """Seconds since the last good step; None before the first."""
        turned = self.loop.turned
        return None if turned is None else SYSTEM.monotonic() - turned

    @property
    def alive(self) -> bool:
        """Whether the loop turns, servers or no servers."""
        return self.heart.beats

    def abandon(self) -> None:
        """Let go of the connections of the process that this one was forked from."""
        for database in self.databases:
            database.abandon()
        self.destination.abandon()

    def info(self) -> dict[str, Any]:
        """Return what people may want to know, as JSON can say it."""
        idle = self.idle
        return {
            "kind": self.kind,
            "holder": self.holder,
            "entries": self.service.entries,
            "unreadable": self.service.unreadable,
            "won": self.tally.won,
            "missed": self.tally.missed,
            "last_turn": None if idle is None else round(idle, 3),
        }
