"""The integers of a thread or greenlet, from its first statement to its end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from throttle.meter.cells import (
    NANOSECONDS,
    OPERATIONS,
    ROWS,
    STARTED,
    WIDTH,
    nanoseconds,
)
from throttle.model import Amount, Reading, Run

if TYPE_CHECKING:
    from throttle.meter.cells import Cells


class Sums:
    """Adds up what came from all threads and children."""

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._dropped = 0
        self._databases: dict[str, list[int]] = {}

    def add(self, names: Sequence[str], news: Iterable[New]) -> None:
        """Add what is new, of the databases in the order of their cells."""
        for at, operations, spent, rows in news:
            if at == 0:
                self._dropped += operations
                continue
            name = names[at // WIDTH - 1]
            sums = self._databases.get(name)
            if sums is None:
                sums = self._databases[name] = [0, 0, 0, 0]
            sums[1] += operations
            sums[2] += spent
            sums[3] += rows

    def add_runs(self, runs: Iterable[Run]) -> None:
        """Add what runs have cost, of one database each."""
        self._runs.extend(runs)

    def drop(self, operations: int) -> None:
        """Add operations of which it is not known what they were of."""
        self._dropped += operations

    def reading(self) -> Reading:
        """Return all of it."""
        databases = {name: amount_of(sums) for name, sums in self._databases.items()}
        return Reading(databases, tuple(self._runs), self._dropped)


def amount_of(new: Sequence[int]) -> Amount:
    """Return the work in the units of the model."""
    return Amount(float(new[1]), new[2] / 1e9, float(new[3]))


def run_of(
    names: Sequence[str], run: int, new: New, elapsed: int, *, ended: bool
) -> Run:
    """Return what a run has cost a database."""
    name = names[new[0] // WIDTH - 1]
    return Run(run, name, amount_of(new), max(elapsed, 0) / 1e9, ended)


def still(cells: list[int]) -> None:
    """Clear the running statement: its thread is gone."""
    cells[STARTED::WIDTH] = [0] * len(cells[STARTED::WIDTH])


New = tuple[int, int, int, int]
"""Where the database's cells begin; operations, nanoseconds and rows since."""


class DeltaReader:
    """Remembers what was read of one thread, so that nothing is reported twice.

    A running statement tells its seconds as they pass. When it ends, its time stands
    for a moment in neither cell: then less is read than before, nothing is reported,
    and what was missed is reported the next time.
    """

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: list[int] = []

    def read(self, cells: list[int], now: int) -> Iterator[New]:
        """Yield what is new, by database; it counts as reported."""
        seen = self._seen
        if len(seen) < len(cells):
            seen.extend([0] * (len(cells) - len(seen)))
        if cells == seen:
            return
        for new in _between(seen, cells, now, first=0):
            at, operations, spent, rows = new
            seen[at + OPERATIONS] += operations
            seen[at + NANOSECONDS] += spent
            seen[at + ROWS] += rows
            yield new


def since(cells: list[int], base: list[int], now: int) -> Iterator[New]:
    """Yield what a run has done since its thread's cells were `base`."""
    known = [*base, *[0] * (len(cells) - len(base))]
    return _between(known, cells, now, first=WIDTH)


def _between(
    before: list[int], cells: list[int], now: int, *, first: int
) -> Iterator[New]:
    for at in range(first, len(cells), WIDTH):
        if cells[at : at + WIDTH] == before[at : at + WIDTH]:
            continue
        operations = cells[at + OPERATIONS] - before[at + OPERATIONS]
        spent = max(nanoseconds(cells, at, now) - before[at + NANOSECONDS], 0)
        rows = cells[at + ROWS] - before[at + ROWS]
        if operations or spent or rows:
            yield at, operations, spent, rows


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


class Counts:
    """Whose memory a process counts in: its own, or a row that its parent reads."""

    def place(self, _name: str) -> int:
        """Return where the database's cells begin; 0: no place is left."""
        return 0

    def add_thread(self) -> ThreadCells:
        """Return cells for one more thread. Never blocks."""
        raise NotImplementedError

    def remove_thread(self, thread: ThreadCells) -> None:
        """Take leave of a thread. Never blocks, whatever it was called within."""

    def begin(self, thread: ThreadCells, run: int, now: int) -> None:
        """Begin a run: what is done from now on is its cost."""

    def end(self, thread: ThreadCells, now: int) -> None:
        """End the open run, whose cost is known."""

    def read(self, sums: Sums, now: int) -> None:
        """Add what is new, and not read elsewhere, to the sums."""


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
