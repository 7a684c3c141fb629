"""What one reading adds up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from throttle.meter.cells import STARTED, WIDTH
from throttle.meter.deltas import New
from throttle.model import Amount, Reading, Run


class Sums:
    """Adds up what came from all threads and children."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.dropped = 0
        self._databases: dict[str, list[int]] = {}

    def add(self, names: Sequence[str], news: Iterable[New]) -> None:
        """Add what is new, of the databases in the order of their cells."""
        for at, operations, nanoseconds, rows in news:
            if at == 0:
                self.dropped += operations
                continue
            name = names[at // WIDTH - 1]
            sums = self._databases.get(name)
            if sums is None:
                sums = self._databases[name] = [0, 0, 0, 0]
            sums[1] += operations
            sums[2] += nanoseconds
            sums[3] += rows

    def reading(self) -> Reading:
        """Return all of it."""
        databases = {name: amount_of(sums) for name, sums in self._databases.items()}
        return Reading(databases, tuple(self.runs), self.dropped)


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
    """Clear its statement: who began one is gone."""
    cells[STARTED::WIDTH] = [0] * len(cells[STARTED::WIDTH])
