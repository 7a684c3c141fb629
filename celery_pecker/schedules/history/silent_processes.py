"""Which process lives have been silent for too long. Pure.

Judged by how long this process has seen a row unchanged on its own monotonic clock,
never by the row's age: a database that was away, or whose clock was stepped, makes all
rows old at once. Polls must follow one another, because a process that was frozen, or
had no database, has seen nothing in between.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime

LOOK_INTERVAL = 15.0
"""Seconds between two looks."""
LONGEST_GAP = 2 * LOOK_INTERVAL
"""Seconds between two looks after which nothing is known any more."""
SILENT = 60.0
"""Seconds for which a row must be seen unchanged: six renewals."""

Seen = tuple[uuid.UUID, datetime]
"""A life, and when it was renewed last."""


class SilentProcesses:
    """Remembers rows that were not renewed."""

    def __init__(self) -> None:
        self._since: dict[Seen, float] = {}
        self._looked = float("-inf")

    def due(self, now: float) -> bool:
        """Return whether it is time for a look."""
        return now - self._looked >= LOOK_INTERVAL

    def update(self, now: float, seen: Iterable[Seen]) -> list[Seen]:
        """Take in a look; return the lives that have been silent for long enough."""
        known = self._since if now - self._looked < LONGEST_GAP else {}
        self._looked = now
        self._since = {one: known.get(one, now) for one in seen}
        return [one for one, since in self._since.items() if now - since >= SILENT]
