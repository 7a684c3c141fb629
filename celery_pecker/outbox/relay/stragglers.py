"""Choose which ids below the watermark are looked at next. Pure.

Nothing should wait there. But ids can be made anew (a sequence that was set back, or
hands them out in bundles), rows changed by hand, and a batch deleted: each would wait
for ever.

A look at all of it at once would walk over every row that was deleted and is still in
the index: 377 ms for a million under a held snapshot. So a slice is as long as can be
walked in some milliseconds: few ids where rows died lately, millions where a vacuum
was.
"""

from __future__ import annotations

SLICE_INTERVAL = 1.0
"""Seconds between two slices."""
REST_INTERVAL = 30.0
"""Seconds between two walks from the start to the watermark."""
FIRST = 20_000
LEAST, MOST = 1_000, 1 << 40
SHORT, LONG = 0.002, 0.010
"""Seconds of a slice: below the first the next is longer, above the second shorter."""
FACTOR = 8


class StragglerScan:
    """Chooses a slice of ids at a time, as long as can be read in milliseconds."""

    def __init__(self) -> None:
        self._at = 0
        self._size = FIRST
        self._next_at = float("-inf")

    def slice(self, passed: int | None, monotonic: float) -> tuple[int, int] | None:
        """Return after which id and up to which one to look now, None for not now."""
        if not passed or monotonic < self._next_at:
            return None
        after = self._at if self._at < passed else 0
        return after, min(after + self._size, passed)

    def looked(
        self, upto: int, passed: int, *, seconds: float, monotonic: float
    ) -> None:
        """Take in that a slice was looked at, and for how long."""
        ended = upto >= passed
        self._at = 0 if ended else upto
        self._next_at = monotonic + (REST_INTERVAL if ended else SLICE_INTERVAL)
        if seconds < SHORT:
            self._size = min(self._size * FACTOR, MOST)
        elif seconds > LONG:
            self._size = max(self._size // FACTOR, LEAST)
