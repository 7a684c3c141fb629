"""Shared memory of a prefork worker: a row for each child, made before the pool starts.

The child is the only one that writes to its row, the parent the only one that reads.
A row outlives its child: the next one goes on counting where the other stopped, so
its sums only grow. Memory that is not touched costs nothing.

    row    header · names · lanes (a thread each) · the lanes when the run began · ring
"""

from __future__ import annotations

import mmap
import os

from throttle.limits import LONGEST_NAME
from throttle.meter.cells import (
    DATABASES,
    LENGTH,
    OPERATIONS,
    STARTED,
    WIDTH,
)
from throttle.meter.thread_cells import DeltaReader, New, Sums, run_of, since, still

# The header
PID = 0
"""The process that writes; 0: none ever did."""
NAMES = 1
"""How many names are written."""
LANES_USED = 2
TURN = 3
"""Rises before and after the open run is written; odd in between."""
RUN = 4
"""0: none is open."""
BEGAN = 5
WRITTEN = 6
"""Ended runs that were ever written into the ring."""
DROPPED = 7
"""Counts of threads beyond the lanes."""
HEADER = 8

NAME = -(-(LONGEST_NAME + 1) // 8)
"""Cells of a name: its length in the first byte."""
LANES = 16
"""Threads of a child that count."""
RING = 512
"""Ended runs between two readings: 5,000 a second of one child."""
ENTRY = 6
"""Run, where the database's cells begin, operations, nanoseconds, rows, elapsed."""
SUSPICIOUS = 1_000_000_000
"""Nanoseconds of a run or statement; then one looks whether its process lives."""

_NAMES_AT = HEADER
_LANES_AT = _NAMES_AT + DATABASES * NAME
_BASES_AT = _LANES_AT + LANES * LENGTH
_RING_AT = _BASES_AT + LANES * LENGTH
SIZE = _RING_AT + RING * ENTRY
"""Cells of a row."""


def size(rows: int) -> int:
    """Return the bytes of memory for so many rows."""
    return (rows * SIZE + LENGTH) * 8


class Shared:
    """The rows, and cells for the children that have none."""

    def __init__(self, memory: mmap.mmap) -> None:
        self.rows = (len(memory) // 8 - LENGTH) // SIZE
        self._memory = memory
        self._cells = memoryview(self._memory).cast("q")
        self._dropped_reported = 0

    def row(self, index: int) -> Row:
        """Return the row of the child with that index, 0 … rows - 1."""
        return Row(self._cells[index * SIZE : (index + 1) * SIZE])

    @property
    def spare(self) -> memoryview[int]:
        """Return the cells of children beyond the rows."""
        return self._cells[self.rows * SIZE :]

    def dropped(self) -> int:
        """Return what those children counted since it was asked last."""
        counted: int = self._cells[self.rows * SIZE + OPERATIONS]
        new = counted - self._dropped_reported
        self._dropped_reported = counted
        return new


class Row:
    """A child's part of shared memory."""

    def __init__(self, cells: memoryview[int]) -> None:
        self._cells = cells
        self._bytes = cells.cast("B")
        self._names: list[str] = []
        self._readers: list[DeltaReader] = []
        self._reported = 0
        self._dropped_reported = 0

    # What the child does

    def take(self) -> None:
        """Take the row for this process; close what its last owner left open."""
        cells = self._cells
        cells[TURN] += cells[TURN] % 2  # a child killed while it wrote left it odd
        self._close()
        for lane in range(cells[LANES_USED]):
            mine = self.lane(lane)
            for at in range(0, LENGTH, WIDTH):
                mine[at + STARTED] = 0
        cells[PID] = os.getpid()

    def place(self, name: str) -> int:
        """Return where the database's cells begin; 0: there is no place left."""
        names = self.names()
        if name in names:
            return (names.index(name) + 1) * WIDTH
        count = len(names)
        if count == DATABASES:
            return 0
        text = name.encode()
        start = (_NAMES_AT + count * NAME) * 8
        self._bytes[start] = len(text)
        self._bytes[start + 1 : start + 1 + len(text)] = text
        self._cells[NAMES] = count + 1
        return (count + 1) * WIDTH

    def lane(self, index: int) -> memoryview[int]:
        """Return the cells of one thread of the child."""
        start = _LANES_AT + index * LENGTH
        if index >= self._cells[LANES_USED]:
            self._cells[LANES_USED] = index + 1
        return self._cells[start : start + LENGTH]

    def begin(self, run: int, now: int) -> None:
        """Open a run: what all threads of the child do from now on is its cost."""
        cells = self._cells
        used = (cells[NAMES] + 1) * WIDTH
        cells[TURN] += 1
        for lane in range(cells[LANES_USED]):
            start = lane * LENGTH
            cells[_BASES_AT + start : _BASES_AT + start + used] = cells[
                _LANES_AT + start : _LANES_AT + start + used
            ]
        # A database or a thread that comes later begins with what its base says
        cells[BEGAN] = now
        cells[RUN] = run
        cells[TURN] += 1

    def end(self, now: int) -> None:
        """Close the run and write it into the ring with its cost."""
        cells = self._cells
        run, began = cells[RUN], cells[BEGAN]
        if not run:
            return
        for new in self._cost(now):
            start = _RING_AT + cells[WRITTEN] % RING * ENTRY
            for offset, value in enumerate((run, *new, now - began)):
                cells[start + offset] = value
            cells[WRITTEN] += 1
        self._close()

    def drop(self, counts: int) -> None:
        """Count so many more for which there was no place."""
        self._cells[DROPPED] += counts

    def _close(self) -> None:
        self._cells[TURN] += 1
        self._cells[RUN] = 0
        self._cells[TURN] += 1

    # What the parent reads

    def names(self) -> list[str]:
        """Return the databases in the order of their cells."""
        for index in range(len(self._names), self._cells[NAMES]):
            start = (_NAMES_AT + index * NAME) * 8
            length = self._bytes[start]
            text = bytes(self._bytes[start + 1 : start + 1 + length])
            self._names.append(text.decode())
        return self._names

    def read(self, sums: Sums, now: int) -> None:
        """Add all that is new to the sums."""
        if not self._cells[PID]:
            return
        lanes = [self._copy(_LANES_AT, lane) for lane in range(self._cells[LANES_USED])]
        gone = self._gone(lanes, now)
        if gone:
            for cells in lanes:
                still(cells)
        names = self.names()
        self._readers.extend(
            DeltaReader() for _ in range(len(lanes) - len(self._readers))
        )
        for reader, cells in zip(self._readers, lanes, strict=True):
            sums.add(names, reader.read(cells, now))
        self._read_ended(sums)
        if not gone:
            self._read_running(sums, now)
        dropped = self._cells[DROPPED]
        sums.drop(dropped - self._dropped_reported)
        self._dropped_reported = dropped

    def _gone(self, lanes: list[list[int]], now: int) -> bool:
        """Return whether the child died within a run or a statement.

        Nothing else would end it, if no other child takes the row.
        """
        since_when = [at for one in lanes for at in one[STARTED::WIDTH] if at]
        if self._cells[RUN]:
            since_when.append(self._cells[BEGAN])
        if now - min(since_when, default=now) < SUSPICIOUS:
            return False
        try:
            os.kill(self._cells[PID], 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False

    def _read_running(self, sums: Sums, now: int) -> None:
        cells = self._cells
        turn, run, began = cells[TURN], cells[RUN], cells[BEGAN]
        if not run or turn % 2:
            return
        cost = self._cost(now)
        if cells[TURN] != turn:  # another one began meanwhile
            return
        sums.add_runs(
            run_of(self._names, run, new, now - began, ended=False) for new in cost
        )

    def _read_ended(self, sums: Sums) -> None:
        cells = self._cells
        written = cells[WRITTEN]
        first = max(self._reported, written - RING)
        runs = []
        for number in range(first, written):
            start = _RING_AT + number % RING * ENTRY
            run, at, operations, spent, rows, elapsed = cells[start : start + ENTRY]
            new = (at, operations, spent, rows)
            runs.append(run_of(self._names, run, new, elapsed, ended=True))
        torn = max(cells[WRITTEN] - RING - first, 0)  # overwritten while we read
        sums.add_runs(runs[torn:])
        sums.drop(first - self._reported + min(torn, len(runs)))
        self._reported = written

    def _cost(self, now: int) -> list[New]:
        sums: dict[int, New] = {}
        for lane in range(self._cells[LANES_USED]):
            cells, base = self._copy(_LANES_AT, lane), self._copy(_BASES_AT, lane)
            if cells == base:  # its thread has done nothing
                continue
            for at, *new in since(cells, base, now):
                old = sums.get(at, (at, 0, 0, 0))
                sums[at] = (at, old[1] + new[0], old[2] + new[1], old[3] + new[2])
        return list(sums.values())

    def _copy(self, area: int, lane: int) -> list[int]:
        used = (self._cells[NAMES] + 1) * WIDTH
        start = area + lane * LENGTH
        return self._cells[start : start + used].tolist()
