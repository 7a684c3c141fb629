"""Counts what a process does to its databases, so cheaply that all of it is counted.

A statement adds to a few integers of its own thread: no lock, no queue, no socket, and
nothing that could wait. One thread of the process reads them every 100 ms.

    from throttle.meter import meter

    tally = meter.tally("main")         # once
    tally.add(seconds=0.002, rows=10)   # by hand; `throttle.instrument` does it for you
    meter.read()                        # what came since it was read last

Where the integers are
    *threads, gevent, solo, web processes*  in a list of each thread or greenlet
    *children of a prefork worker*          in shared memory, which the parent made
                                            before it forked, and reads; a child does
                                            no I/O

One writer per integer, so an addition is never lost. What finds no place (more than
127 databases, 10,000 threads, a child beyond the rows) is dropped and counted.

Where things are
    which integer is what      ``cells``
    a thread's integers        ``thread_cells``; of one database: `Tally`; what is new
    a child's shared memory    ``rows``
    all of it together         `Meter`
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Iterator

from celery_pecker.kernel import shared_memory
from celery_pecker.kernel.clock import perf_ns
from throttle.limits import check_name
from throttle.meter.cells import (
    DATABASES,
    LENGTH,
    OPERATIONS,
    STARTED,
    WIDTH,
)
from throttle.meter.rows import LANES, Row, Shared, size
from throttle.meter.thread_cells import (
    Counts,
    DeltaReader,
    LocalCells,
    OpenRun,
    Sums,
    Tally,
    ThreadCells,
    run_of,
    since,
    still,
)
from throttle.model import Reading, Run

__all__ = ["Meter", "Tally", "meter"]


class RowCounts(Counts):
    """The counts of a child that has a row: its parent reads it."""

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


class DroppedCounts(Counts):
    """The counts of a child beyond the rows: what it counts is dropped, and counted.

    Such children write to the same cells, so that the sum, which their parent reads, is
    a lower bound. No process reads their runs.
    """

    def __init__(self, cells: memoryview[int]) -> None:
        self._cells = cells

    def add_thread(self) -> ThreadCells:
        """Return the cells of all of them."""
        return ThreadCells(self._cells)


THREADS = 10_000
"""Threads or greenlets that count at once."""
ENDED = 10_000
"""Ended runs between two readings."""


class ProcessCounts(Counts):
    """The counts of threads, gevent, solo and web processes."""

    def __init__(self, threads: int = THREADS, ended: int = ENDED) -> None:
        self._names: list[str] = []
        self._threads = threads
        self._by_thread: dict[ThreadCells, DeltaReader] = {}
        self._spare = ThreadCells([0] * LENGTH)
        self._spare_reported = 0
        self._ended: deque[Run] = deque()
        self._most_ended = ended
        self._lost = 0

    def place(self, name: str) -> int:
        """Return where the database's cells begin; 0: no place is left."""
        if name not in self._names:
            if len(self._names) == DATABASES:
                return 0
            self._names.append(name)
        return (self._names.index(name) + 1) * WIDTH

    def add_thread(self) -> ThreadCells:
        """Return cells for one more thread; beyond the last, those that are dropped."""
        if len(self._by_thread) >= self._threads:
            return self._spare
        thread = ThreadCells([0] * LENGTH)
        self._by_thread[thread] = DeltaReader()  # atomic: no lock, no wait
        return thread

    def remove_thread(self, thread: ThreadCells) -> None:
        """Read the cells of a thread that is gone once more."""
        thread.ended = True

    def begin(self, thread: ThreadCells, run: int, now: int) -> None:
        """Begin a run: what the thread does from now on is its cost."""
        if thread is not self._spare:
            thread.opened = OpenRun(run, now, self._copy(thread))

    def end(self, thread: ThreadCells, now: int) -> None:
        """End the run; the next reading reports it."""
        if (opened := thread.opened) is None:
            return
        thread.opened = None
        for run in self._runs(thread, opened, now, ended=True):
            if len(self._ended) < self._most_ended:
                self._ended.append(run)
            else:
                self._lost += 1

    # Reading

    def read(self, sums: Sums, now: int) -> None:
        """Add all that is new to the sums."""
        for thread in list(self._by_thread):
            reader = self._by_thread[thread]
            ended, opened = thread.ended, thread.opened
            cells = self._copy(thread)
            if ended:
                still(cells)
            sums.add(self._names, reader.read(cells, now))
            if ended:
                del self._by_thread[thread]
            elif opened is not None:
                sums.add_runs(self._runs(thread, opened, now, ended=False))
        sums.add_runs(self._ended.popleft() for _ in range(len(self._ended)))
        dropped = sum(self._spare.cells[OPERATIONS::WIDTH]) + self._lost
        sums.drop(dropped - self._spare_reported)
        self._spare_reported = dropped

    def _runs(
        self, thread: ThreadCells, opened: OpenRun, now: int, *, ended: bool
    ) -> Iterator[Run]:
        for new in since(self._copy(thread), opened.base, now):
            yield run_of(self._names, opened.run, new, now - opened.began, ended=ended)

    def _copy(self, thread: ThreadCells) -> list[int]:
        used = (len(self._names) + 1) * WIDTH
        return list(thread.cells[:used])


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
            operations, rows = int(amount.operations), int(amount.rows)
            self.tally(name).add(operations, seconds=amount.seconds, rows=rows)

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


_meters: weakref.WeakSet[Meter] = weakref.WeakSet()


def _forked() -> None:
    for one in list(_meters):
        one.forked()


os.register_at_fork(after_in_child=_forked)

meter = Meter()
"""The one of this process."""
