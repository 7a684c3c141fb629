"""Looks at an act ten times a second, and asks for the front page as people do."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Self

import psycopg

from celery_pecker.kernel.clock import SYSTEM
from example_project.rush.app import DATABASE
from example_project.store import statements
from throttle.errors import ThrottleError
from throttle.model import Estimator, Store

EVERY = 0.1
"""Seconds between two looks."""
PEOPLE = 40_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What was to be seen at one moment; seconds since the rush began."""

    at: float
    traffic: float
    """Statements per second, as soon as it can be told."""
    steady: float
    """Statements of the last whole seconds: what a peak is told from."""
    held: int
    """Tasks that wait in the workers."""
    busy: int
    """Connections of reminders at work in the database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """Somebody opened the front page."""

    at: float
    took: float
    """Seconds until its data was there."""


@dataclass(slots=True)
class Looker:
    """Two threads for the time of an act: one looks, one visits the front page."""

    dsn: str
    store: Store
    sights: list[Sight] = field(default_factory=list)
    visits: list[Visit] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    began: float = 0.0

    def __enter__(self) -> Self:
        """Both look from now on."""
        self.began = SYSTEM.monotonic()
        for what in (self._look, self._visit):
            thread = threading.Thread(target=what, daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, *_: object) -> None:
        """Neither looks any more."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _look(self) -> None:
        asked = statements()["busy_connections"].encode()
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            while not self._over.wait(EVERY):
                row = connection.execute(asked).fetchone()
                traffic, steady, held = self._throttle()
                self.sights.append(
                    Sight(
                        at=SYSTEM.monotonic() - self.began,
                        traffic=traffic,
                        steady=steady,
                        held=held,
                        busy=row[0] if row else 0,
                    )
                )

    def _throttle(self) -> tuple[float, float, int]:
        try:
            view = self.store.look().get(DATABASE)
        except ThrottleError:
            return 0.0, 0.0, 0
        if view is None:
            return 0.0, 0.0, 0
        held = sum(holder.holding.held for holder in view.holders.values())
        traffic = view.seen.traffic
        return (
            traffic[Estimator.FAST].operations,
            traffic[Estimator.WEIGHTED].operations,
            held,
        )

    def _visit(self) -> None:
        asked = statements()["front_page"].encode()
        person = 0
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            while not self._over.wait(EVERY / 2):
                person = (person + 7_919) % PEOPLE
                began = SYSTEM.monotonic()
                connection.execute(asked, {"person": person + 1}).fetchone()
                ended = SYSTEM.monotonic()
                self.visits.append(Visit(at=began - self.began, took=ended - began))
