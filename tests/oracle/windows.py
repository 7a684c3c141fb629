"""What was counted, in windows of a second with ten buckets each."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from operator import add

from tests.oracle.steady import SECOND

BUCKET = 100_000
"""Microseconds."""
SLOTS = SECOND // BUCKET
SIZE = 6
"""Numbers of a bucket: operations, seconds and rows of everybody, then the same of
those who hold no share."""
KEPT = 10
"""Seconds that a window is kept for."""

Counts = list[float]


def empty() -> Counts:
    """Return a bucket in which nothing was counted."""
    return [0.0] * SIZE


class Windows:
    """The counts of one database. All numbers are whole: see `units`."""

    def __init__(self) -> None:
        self._windows: dict[int, dict[int, Counts]] = defaultdict(dict)

    def count(
        self,
        now: int,
        age: int,
        span: int,
        amounts: Sequence[int],
        *,
        outside: bool,
    ) -> None:
        """A sample is spread evenly over the time that it was counted in.

        What is older than the windows that are kept is dropped.
        """
        self.forget(now)
        stop, start = now - age, now - age - span
        told = [0.0, 0.0, 0.0]
        edge = start // BUCKET * BUCKET
        while edge < stop:
            bucket, edge = edge // BUCKET, edge + BUCKET
            counts = self._bucket(now, bucket)
            for i, whole in enumerate(amounts):
                by_now = float(whole)
                if edge < stop:
                    by_now = math.floor(by_now * float(edge - start) / float(span))
                part, told[i] = by_now - told[i], by_now
                counts[i] += part
                counts[i + 3] += part if outside else 0

    def bucket(self, number: int) -> Counts:
        """Return what was counted within a tenth of a second (numbered from 1970)."""
        second, slot = divmod(number, SLOTS)
        return self._windows.get(second, {}).get(slot) or empty()

    def second(self, second: int) -> Counts:
        """Return what was counted within a second."""
        return self.buckets(second * SLOTS, SLOTS)

    def buckets(self, first: int, number: int) -> Counts:
        """Return what was counted within so many buckets."""
        total = empty()
        for one in range(first, first + number):
            second, slot = divmod(one, SLOTS)
            if second in self._windows and slot in self._windows[second]:
                total = [*map(add, total, self._windows[second][slot])]
        return total

    def forget(self, now: int) -> None:
        """Windows that nobody reads any more are gone."""
        for second in [s for s in self._windows if s < now // SECOND - KEPT]:
            del self._windows[second]

    def _bucket(self, now: int, number: int) -> Counts:
        second, slot = divmod(number, SLOTS)
        if second <= now // SECOND - KEPT:
            return empty()  # dropped
        return self._windows[second].setdefault(slot, empty())
