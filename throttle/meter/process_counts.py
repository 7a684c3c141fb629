"""Counts in the process's own memory: a list for each thread or greenlet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from throttle.meter.cells import DATABASES, LENGTH, OPERATIONS, WIDTH
from throttle.meter.deltas import DeltaReader, Sums, run_of, since, still
from throttle.meter.thread_cells import OpenRun, ThreadCells
from throttle.model import Run

THREADS = 10_000
"""Threads or greenlets that count at once."""
ENDED = 10_000
"""Ended runs between two readings."""


class ProcessCounts:
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
