"""Read what is new in the integers of a thread since they were read last."""

from __future__ import annotations

from collections.abc import Iterator

from throttle.meter.cells import (
    NANOSECONDS,
    OPERATIONS,
    ROWS,
    STARTED,
    WIDTH,
    nanoseconds,
)

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
