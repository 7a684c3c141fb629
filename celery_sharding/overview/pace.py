"""How fast a job goes just now, from one look to the next. Pure."""

from __future__ import annotations

from collections import deque
from datetime import timedelta

from celery_sharding.ledger.rows import JobRow

WINDOW = 15.0
"""Seconds of the past that count as now."""


class Pace:
    """Items that ended per second, over the last looks.

    The ledger has the mean since the beginning, which an hour's pause makes useless.
    Times are the database's: those of the looks.
    """

    def __init__(self, window: float = WINDOW) -> None:
        self._window = timedelta(seconds=window)
        self._seen: deque[tuple[JobRow, int]] = deque()

    def see(self, row: JobRow) -> None:
        """Count what ended until this look; a run anew begins anew."""
        ended = row.done + row.failed
        if self._seen and (self._seen[-1][0].run != row.run or row.paused):
            self._seen.clear()
        self._seen.append((row, ended))
        # The one at or before the window's edge stays: from it, the window is full.
        while len(self._seen) > 2 and row.now - self._seen[1][0].now >= self._window:  # noqa: PLR2004  # a pace has two ends
            self._seen.popleft()

    @property
    def rate(self) -> float:
        """Items per second; the mean since the beginning where that is all there is."""
        if not self._seen:
            return 0.0
        (first, before), (last, ended) = self._seen[0], self._seen[-1]
        passed = (last.now - first.now).total_seconds()
        if passed <= 0:
            return last.progress().rate
        return max(ended - before, 0) / passed

    @property
    def eta(self) -> timedelta | None:
        """Until the last item; None: nobody knows, or nothing is left."""
        if not self._seen or self.rate <= 0:
            return None
        row, ended = self._seen[-1]
        left = max(row.total - ended, 0)
        if not left or row.paused:
            return None
        return timedelta(seconds=min(left / self.rate, 1e9))
