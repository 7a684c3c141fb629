"""What is new in the integers of a thread since they were read last, and its sums."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from throttle.meter.cells import (
    NANOSECONDS,
    OPERATIONS,
    ROWS,
    STARTED,
    WIDTH,
    nanoseconds,
)
from throttle.model import Amount, Reading, Run


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
        for at in range(0, len(cells), WIDTH):
            if cells[at : at + WIDTH] == seen[at : at + WIDTH]:
                continue
            operations = cells[at + OPERATIONS] - seen[at + OPERATIONS]
            time = max(nanoseconds(cells, at, now) - seen[at + NANOSECONDS], 0)
            rows = cells[at + ROWS] - seen[at + ROWS]
            seen[at + OPERATIONS] += operations
            seen[at + NANOSECONDS] += time
            seen[at + ROWS] += rows
            if operations or time or rows:
                yield at, operations, time, rows


def since(cells: list[int], base: list[int], now: int) -> Iterator[New]:
    """Yield what a run has done since its thread's cells were `base`."""
    known = len(base)
    for at in range(WIDTH, len(cells), WIDTH):
        if at >= known:
            operations, spent, rows = cells[at : at + STARTED]
            spent = nanoseconds(cells, at, now)
        elif cells[at : at + WIDTH] == base[at : at + WIDTH]:
            continue
        else:
            operations = cells[at + OPERATIONS] - base[at + OPERATIONS]
            spent = max(nanoseconds(cells, at, now) - base[at + NANOSECONDS], 0)
            rows = cells[at + ROWS] - base[at + ROWS]
        if operations or spent or rows:
            yield at, operations, spent, rows
