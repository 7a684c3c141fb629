"""The meter of a process: hands out cells, and reads them all."""

from __future__ import annotations

import os
import threading
import weakref

from celery_pecker.kernel import shared_memory
from throttle.clock import perf_ns
from throttle.meter.cells import NANOSECONDS, OPERATIONS, ROWS
from throttle.meter.deltas import Sums
from throttle.meter.process_counts import ProcessCounts
from throttle.meter.rows import Row, Shared, size
from throttle.meter.shared_counts import DroppedCounts, RowCounts
from throttle.meter.tallies import Tally, check_name
from throttle.meter.thread_cells import Counts, LocalCells
from throttle.model import Amount, Reading


class Meter:
    """Counts by database and by run. One for each process: `throttle.meter.meter`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tallies: dict[str, Tally] = {}
        self._counts: Counts = ProcessCounts()
        self._shared: Shared | None = None
        self._children: list[Row] = []
        self.local = LocalCells(lambda: self._counts)
        """The cells of the thread that asks; instruments hold on to it."""
        _meters.add(self)

    def tally(self, database: str) -> Tally:
        """Return where this database's counts go; the same one for the same name.

        Raises `Misconfigured` if it is no name of a database.
        """
        name = check_name(database)
        with self._lock:
            if name not in self._tallies:
                at = self._counts.place(name)
                self._tallies[name] = Tally(name, self.local, at)
            return self._tallies[name]

    # Runs

    def begin(self, run: int) -> None:
        """Begin a run: what this thread, or greenlet, does from now on is its cost.

        In a child of a prefork worker: what all its threads do. A run within a run
        (a task that applies another) is part of the outer one.
        """
        thread = self.local.thread
        thread.depth += 1
        if thread.depth == 1:
            self._counts.begin(thread, run, perf_ns())

    def end(self) -> None:
        """End the run that this thread began; do nothing without one."""
        thread = self.local.thread
        if thread.depth == 1:
            self._counts.end(thread, perf_ns())
        thread.depth = max(thread.depth - 1, 0)

    # Processes

    def share(self, rows: int, *, variable: str = "") -> None:
        """Make memory for so many children; to be called before they are forked.

        What is there already stays, if it is enough. With a ``variable`` of the
        environment children that are fresh interpreters may `join`.
        """
        if variable or self._shared is None or self._shared.rows < rows:
            self._shared = Shared(shared_memory.make(size(rows), variable=variable))
            self._children = [self._shared.row(index) for index in range(rows)]

    def join(self, variable: str) -> bool:
        """Let a fresh interpreter `enter`; return whether it has a parent."""
        memory = shared_memory.join(variable)
        if memory is not None:
            self._shared = Shared(memory)
        return memory is not None

    def enter(self, index: int) -> None:
        """Count into the row with that index, in a child; its parent reads it.

        To be called once in a child, before it works. Beyond the rows its counts are
        dropped; without `share` nothing happens.
        """
        if self._shared is None:
            return
        before = self.read().databases
        if 0 <= index < self._shared.rows:
            self._move(RowCounts(self._shared.row(index)))
        else:
            self._move(DroppedCounts(self._shared.spare))
        for name, amount in before.items():
            self._carry(self.tally(name), amount)

    def read(self) -> Reading:
        """Return what was counted since it was read last. For one thread only.

        In a child that has entered a row: nothing, for its parent reads it.
        """
        now = perf_ns()
        sums = Sums()
        self._counts.read(sums, now)
        for row in self._children:
            row.read(sums, now)
        if self._children and self._shared is not None:
            sums.drop(self._shared.dropped())
        return sums.reading()

    def forked(self) -> None:
        """Begin a child with nothing: what was counted so far is its parent's."""
        self._lock = threading.Lock()  # another thread may have held it
        self._children = []
        self._move(ProcessCounts())

    def _move(self, counts: Counts) -> None:
        with self._lock:
            self._counts = counts
            for name, tally in self._tallies.items():
                tally.at = counts.place(name)
        self.local.attach()

    @staticmethod
    def _carry(tally: Tally, amount: Amount) -> None:
        """Count what a child did before it entered its row."""
        cells, at = tally.local.cells, tally.at
        cells[at + OPERATIONS] += int(amount.operations)
        cells[at + NANOSECONDS] += int(amount.seconds * 1e9)
        cells[at + ROWS] += int(amount.rows)


_meters: weakref.WeakSet[Meter] = weakref.WeakSet()


def _forked() -> None:
    for one in list(_meters):
        one.forked()


os.register_at_fork(after_in_child=_forked)

meter = Meter()
"""The one of this process."""
