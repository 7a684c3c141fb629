"""Statements that last: counted when they begin, timed when they end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Self, TypeVar

from throttle.clock import perf_ns
from throttle.meter import Tally
from throttle.meter.cells import NANOSECONDS, OPERATIONS, ROWS, STARTED

if TYPE_CHECKING:
    from throttle.meter.cells import Cells

Parameters = TypeVar("Parameters")


class Timed:
    """Counts what is done within it: `with Timed(tally) as timed: …; timed.rows = 3`.

    It counts whether or not it fails, for a statement that fails was work too.
    """

    __slots__ = ("_at", "_cells", "_started", "_tally", "_timing", "operations", "rows")

    def __init__(
        self, tally: Tally, *, operations: int = 1, timing: bool = True
    ) -> None:
        self._tally = tally
        self._timing = timing
        self.operations = operations
        self.rows = 0
        """Rows that it returned or changed; below zero: not known."""

    def __enter__(self) -> Self:
        self._cells: Cells = self._tally.local.cells
        self._at = at = self._tally.at
        self._cells[at + OPERATIONS] += self.operations
        self._started = perf_ns()
        if self._timing:
            self._cells[at + STARTED] = self._started
        return self

    def __exit__(self, *_error: object) -> None:
        if not self._timing:
            return
        cells, at = self._cells, self._at
        cells[at + STARTED] = 0
        cells[at + NANOSECONDS] += perf_ns() - self._started
        if self.rows > 0:
            cells[at + ROWS] += self.rows


def each(parameters: Iterable[Parameters], tally: Tally) -> Iterator[Parameters]:
    """Yield the parameters as they are asked for: a statement is counted for each."""
    for one in parameters:
        tally.local.cells[tally.at + OPERATIONS] += 1
        yield one
