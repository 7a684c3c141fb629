"""Whose turn it is to start a run that is larger than a second of a worker's share.

Each worker pays for such a run afterwards, so the mean is right without any turn. But
workers that pay side by side start side by side, and that second sees many times the
limit. So a start takes the store's leave, and leaves come one after another at the
pace at which the limit pays for them (the generic cell rate algorithm, with the part of
the limit as the cell). A leave is used within a tick, or not at all: it belongs to
nobody, so a worker that dies or freezes with one in hand takes nothing with it but that
run's time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tests.oracle.steady import SECOND
from tests.oracle.windows import BUCKET, SLOTS, Windows

LONGEST = 10 * SECOND
"""That the next start waits for one run, however large: what it costs beyond is paid by
its worker alone."""
LATE = BUCKET
"""By so much later than it might have been a start does not delay the next one: workers
ask ten times a second."""


@dataclass(slots=True)
class Turn:
    """When the next start may be, microseconds of the store's clock."""

    at: int = 0

    def ask(self, now: int, part: int, available: int, used: float) -> bool:
        """Say whether a run may start now that costs such a part of the limit.

        All in millionths of the limit: `available` is what there is for holders, `used`
        what the last second has seen. A clock that was stepped back far is no reason to
        wait: nothing waits longer than the longest run.
        """
        if part <= 0 or available <= 0 or used > available:
            return False
        if now < self.at <= now + LONGEST:
            return False
        took = min(math.floor(part * SECOND / available), LONGEST)
        self.at = max(self.at if self.at <= now else 0, now - LATE) + took
        return True


def last_second(windows: Windows, now: int, limits: Sequence[int]) -> float:
    """Return what holders did in the last second, in millionths of the limit.

    In the scarcer dimension, the running bucket included; 0 is no limit.
    """
    counts = windows.buckets(now // BUCKET - SLOTS + 1, SLOTS)
    part = 0.0
    for i, limit in enumerate(limits):
        if limit > 0:
            part = max(part, (counts[i] - counts[i + 3]) / limit)
    return part * SECOND
