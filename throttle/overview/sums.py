"""Sums over workers, each of which begins its count anew."""

from __future__ import annotations

from collections.abc import Mapping

MOST_GONE = 100
"""Workers that are remembered though they were not heard of."""


class Sum:
    """A sum that never goes back. For one thread.

    A worker that goes takes its count with it; Prometheus would take the smaller sum
    for a restart and the next for a rush.
    """

    def __init__(self) -> None:
        self.total = 0
        self._last: dict[str, int] = {}

    def add(self, counts: Mapping[str, int]) -> int:
        """Add what workers, by id, have counted since the last call; return the sum."""
        last = self._last
        self.total += sum(
            max(count - last.get(worker, 0), 0) for worker, count in counts.items()
        )
        # A worker that one read missed returns; old lives are bounded
        gone = [worker for worker in last if worker not in counts]
        kept = max(len(counts), MOST_GONE) if counts else len(gone)
        for worker in gone[: max(len(gone) - kept, 0)]:
            del last[worker]
        last.update(counts)
        return self.total
