"""Below which id nothing is left. Pure.

Deleted rows stay in the index until a vacuum, and a held snapshot keeps them there: a
claim that walks from the start walks over all of them (54 ms became 210 at 200,000).
But ids become visible out of order, since transactions commit out of order. So an id
counts as passed once every transaction has ended that was under way when a claim had
chosen up to it: an id below it that is still to come belongs to one of those.

Between taking its id and its transaction number an insert may stand still (a frozen
server process). For that a walk from the start follows from time to time.
"""

from __future__ import annotations

from collections import deque

FULL_WALK_INTERVAL = 30.0
"""Seconds between two walks from the start."""
REMEMBERED = 64
"""Claims whose transactions are not known to have ended."""


class Watermark:
    """From where the next claim walks."""

    def __init__(self) -> None:
        self._passed = 0
        self._pending: deque[tuple[int, int]] = deque(maxlen=REMEMBERED)
        self._full_at = float("-inf")

    def above(self, monotonic: float) -> int:
        """Return the id above which the next claim walks."""
        if monotonic - self._full_at >= FULL_WALK_INTERVAL:
            self._full_at = monotonic
            return 0
        return self._passed

    def chosen(self, last: int | None, *, oldest: int, newest: int) -> None:
        """Take in a claim: the highest id it chose, and the transactions it saw.

        Args:
            last: None if it chose none.
            oldest: Every transaction before this one had ended.
            newest: This one and those after it had not begun.

        """
        while self._pending and self._pending[0][1] <= oldest:
            self._passed = max(self._passed, self._pending.popleft()[0])
        if last is None:
            return
        if len(self._pending) == REMEMBERED:
            # The oldest stays: it is the first whose transactions end.
            self._pending.pop()
        self._pending.append((last, newest))
