"""Where a database's counts go: what the query's path holds on to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from throttle.meter.cells import NANOSECONDS, OPERATIONS, ROWS, STARTED

if TYPE_CHECKING:
    from throttle.meter.thread_cells import LocalCells

MOST = 1_000_000_000
LONGEST = 1_000_000
"""Seconds. A cell of shared memory has 63 bits, and only grows."""


class Tally:
    """The counts of one database, of the thread that asks.

    `local.cells[at + …]` is all that instruments touch; `at` is read anew for each
    statement, because a child that takes over a row finds the names in another order.
    """

    __slots__ = ("at", "local", "name")

    def __init__(self, name: str, local: LocalCells, at: int) -> None:
        self.name = name
        self.local = local
        self.at = at

    @property
    def running(self) -> bool:
        """Return whether this thread is within a statement whose time is counted."""
        return self.local.cells[self.at + STARTED] != 0

    def add(self, operations: int = 1, *, seconds: float = 0.0, rows: int = 0) -> None:
        """Count what was done. From any thread; never blocks, never raises.

        What is no amount is nothing; no more counts at once than a billion operations
        or rows, or a million seconds.
        """
        cells, at = self.local.cells, self.at
        cells[at + OPERATIONS] += max(min(operations, MOST), 0)
        if seconds > 0:  # nor if it is no number
            cells[at + NANOSECONDS] += int(min(seconds, LONGEST) * 1e9)
        cells[at + ROWS] += max(min(rows, MOST), 0)
