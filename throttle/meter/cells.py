"""Which integer is what: four for each database, and four for what finds no place.

They only grow, but for STARTED. A reader sees each integer whole, but not all four from
one moment; what it misses by that it sees the next time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Cells = list[int] | memoryview[int]
    """The integers of one thread: a list, or shared memory of 64-bit integers."""

OPERATIONS = 0
"""Statements that were begun."""
NANOSECONDS = 1
"""What the ended ones took."""
ROWS = 2
"""What they returned or changed."""
STARTED = 3
"""When the one that runs was begun, by the monotonic clock; 0: none runs.

A thread runs one at a time. Where several overlap (asyncio, a cursor within a cursor)
it knows of one only, and the seconds of the others are seen when they end.
"""
WIDTH = 4
"""Cells for each database."""
DATABASES = 127
"""Databases that a process counts apart."""
LENGTH = (DATABASES + 1) * WIDTH
"""Cells of a thread. The first four count what finds no place."""


def nanoseconds(cells: Cells, at: int, now: int) -> int:
    """Return the time of a database's statements, with the one that runs."""
    spent: int = cells[at + NANOSECONDS]
    started: int = cells[at + STARTED]
    return spent + max(now - started, 0) if started else spent
