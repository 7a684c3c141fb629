"""Counts in a row of shared memory: what a child of a prefork worker does."""

from __future__ import annotations

import os
from collections import deque

from throttle.meter.cells import LENGTH, OPERATIONS, STARTED, WIDTH
from throttle.meter.deltas import Sums
from throttle.meter.rows import LANES, Row
from throttle.meter.thread_cells import ThreadCells


class RowCounts:
    """The counts of a child that has a row."""

    def __init__(self, row: Row) -> None:
        self._row = row
        self._pid = os.getpid()
        self._lanes = deque(range(LANES))
        self._spare = ThreadCells([0] * LENGTH)
        self._spare_reported = 0
        self._crowded = False
        """Whether a thread has had no lane, ever."""
        row.take()

    def place(self, name: str) -> int:
        """Return where the database's cells begin; 0: no place is left."""
        return self._row.place(name)

    def add_thread(self) -> ThreadCells:
        """Return a lane for one more thread; beyond the last, cells to be dropped."""
        try:
            lane = self._lanes.popleft()
        except IndexError:
            self._crowded = True
            return self._spare
        return ThreadCells(self._row.lane(lane), lane)

    def remove_thread(self, thread: ThreadCells) -> None:
        """Leave the lane of a thread that is gone to another one."""
        # A process that this one has forked leaves too, and shares the memory
        if thread.lane >= 0 and os.getpid() == self._pid:
            for at in range(STARTED, LENGTH, WIDTH):
                thread.cells[at] = 0
            self._lanes.append(thread.lane)

    def begin(self, _thread: ThreadCells, run: int, now: int) -> None:
        """Begin a run: what all threads of the child do from now on is its cost."""
        self._row.begin(run, now)

    def end(self, _thread: ThreadCells, now: int) -> None:
        """End the run; the parent reads its cost in the row."""
        self._row.end(now)
        if not self._crowded:  # at the end of each run: the sum takes a microsecond
            return
        dropped = sum(self._spare.cells[OPERATIONS::WIDTH])
        if dropped != self._spare_reported:
            self._row.drop(dropped - self._spare_reported)
            self._spare_reported = dropped

    def read(self, _sums: Sums, _now: int) -> None:
        """Add nothing: the parent reads the row."""


class DroppedCounts:
    """The counts of a child beyond the rows: what it counts is dropped, and counted.

    Such children write to the same cells, so that the sum is a lower bound.
    """

    def __init__(self, cells: memoryview[int]) -> None:
        self._cells = cells

    def place(self, _name: str) -> int:
        """Return the cells of what finds no place."""
        return 0

    def add_thread(self) -> ThreadCells:
        """Return the cells of all of them."""
        return ThreadCells(self._cells)

    def remove_thread(self, _thread: ThreadCells) -> None:
        """Leave nothing behind."""

    def begin(self, _thread: ThreadCells, _run: int, _now: int) -> None:
        """Do nothing: no process reads it."""

    def end(self, _thread: ThreadCells, _now: int) -> None:
        """Do nothing: no process reads it."""

    def read(self, _sums: Sums, _now: int) -> None:
        """Add nothing: the parent reads the cells."""
