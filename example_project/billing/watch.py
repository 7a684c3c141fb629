"""What stands in the tables of the billing, over time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import psycopg

from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.testing import eventually
from example_project.billing.tasks import execute

INTERVAL = 0.1
"""Seconds between two looks."""


class Count(NamedTuple):
    """How many calls are how far."""

    hung_up: int
    """Somebody hung up, and that is committed."""
    ended: int
    billed: int
    lost: int
    """Hung up and not billed: at the end there must be none."""
    doubled: int
    """Bills beyond the first of a call."""
    repeated: int
    """Runs of a task beyond its first."""
    waiting: int
    """Messages in the outbox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """One look at the tables."""

    at: float
    """Seconds since the first look."""
    count: Count


class Watch:
    """Looks at the tables and remembers what it saw."""

    def __init__(
        self, connection: psycopg.Connection[Any], show: Callable[[Count], None]
    ) -> None:
        self.connection = connection
        self.sights: list[Sight] = []
        self._show = show
        self._began = SYSTEM.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the first look."""
        if not self.sights:
            self._began = SYSTEM.monotonic()
        return SYSTEM.monotonic() - self._began

    def look(self) -> Count:
        """Return what stands in the tables now; it is shown too."""
        [row] = execute(self.connection, "billing_counted").fetchall()
        count = Count(*row)
        self.sights.append(Sight(at=self.elapsed, count=count))
        self._show(count)
        return count

    def until(self, condition: Callable[[Count], bool], limit: float) -> bool:
        """Look until the condition holds; return False after `limit` seconds."""
        try:
            eventually(lambda: condition(self.look()), limit, interval=INTERVAL)
        except AssertionError:
            return False
        return True
