"""The integers of a thread or greenlet, from its first statement to its end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from throttle.meter.deltas import Sums

if TYPE_CHECKING:
    from throttle.meter.cells import Cells


class OpenRun(NamedTuple):
    """The run that a thread works on."""

    run: int
    began: int
    """Nanoseconds of the monotonic clock."""
    base: list[int]
    """The thread's cells when it began."""


class ThreadCells:
    """What one thread writes and the reader reads."""

    __slots__ = ("cells", "depth", "ended", "lane", "opened")

    def __init__(self, cells: Cells, lane: int = -1) -> None:
        self.cells = cells
        self.lane = lane
        """Which part of a child's row it is; -1: none."""
        self.ended = False
        """Its thread is gone: it is read once more, and forgotten."""
        self.depth = 0
        """Runs within one another: a task that applies a task."""
        self.opened: OpenRun | None = None


class Counts(Protocol):
    """Whose memory a process counts in: its own, or a row that its parent reads."""

    def place(self, name: str) -> int:
        """Return where the database's cells begin; 0: no place is left."""
        ...

    def add_thread(self) -> ThreadCells:
        """Return cells for one more thread. Never blocks."""
        ...

    def remove_thread(self, thread: ThreadCells) -> None:
        """Take leave of a thread. Never blocks, whatever it was called within."""
        ...

    def begin(self, thread: ThreadCells, run: int, now: int) -> None:
        """Begin a run: what is done from now on is its cost."""
        ...

    def end(self, thread: ThreadCells, now: int) -> None:
        """End the open run, whose cost is known."""
        ...

    def read(self, sums: Sums, now: int) -> None:
        """Add what is new, and not read elsewhere, to the sums."""
        ...


class ThreadEnd:
    """Is dropped with the other locals of a thread when that ends."""

    __slots__ = ("_counts", "_thread")

    def __init__(self, thread: ThreadCells, counts: Counts) -> None:
        self._thread = thread
        self._counts = counts

    def __del__(self) -> None:
        self._counts.remove_thread(self._thread)


class LocalCells(threading.local):
    """The cells of the thread that asks; under gevent's patches, of the greenlet."""

    def __init__(self, counts: Callable[[], Counts]) -> None:
        self._of = counts
        self.attach()

    def attach(self) -> None:
        """Count this thread into the memory that the process counts in now."""
        counts = self._of()
        self.thread = counts.add_thread()
        self.cells = self.thread.cells
        self._end = ThreadEnd(self.thread, counts)
