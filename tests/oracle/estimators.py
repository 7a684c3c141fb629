"""Traffic, told from windows: what a database gets per second now."""

from __future__ import annotations

from collections.abc import Iterable

from tests.oracle.steady import SECOND
from tests.oracle.windows import BUCKET, SLOTS, Counts, Windows, empty
from throttle.model import Estimator

WEIGHTS = (80, 15, 5)
"""Percent of the last three complete seconds, the newest first."""
LATE = 2
"""Buckets back from the running one, all reports have come; one back, most have."""


def estimate(estimator: Estimator, windows: Windows, now: int) -> Counts:
    """Return the traffic at that moment, in the units of the windows."""
    return ESTIMATES[estimator](windows, now)


def weighted(windows: Windows, now: int) -> Counts:
    """Return 80, 15 and 5 % of the last three complete seconds.

    The last reports of a second come up to 100 ms after it: until then the reading
    before counts too, if it is greater.
    """
    second = now // SECOND
    readings = 2 if now - second * SECOND < BUCKET else 1
    return _greatest(_weigh(windows, second - i) for i in range(readings))


def _weigh(windows: Windows, second: int) -> Counts:
    total = empty()
    for i, weight in enumerate(WEIGHTS):
        for j, count in enumerate(windows.second(second - 1 - i)):
            total[j] += count * weight
    return [one * 0.01 for one in total]


def fast(windows: Windows, now: int) -> Counts:
    """Return the greatest of the last second and the rate of the last 300 ms.

    Each of them ending with the last complete bucket, for which reports still come, or
    with the one before it.
    """
    running = now // BUCKET
    readings: list[Counts] = []
    for last in range(running - LATE, running):
        readings.append(windows.buckets(last - SLOTS + 1, SLOTS))
        three = windows.buckets(last - 2, 3)
        readings.append([one * (10 / 3) for one in three])
    return _greatest(readings)


def _greatest(readings: Iterable[Counts]) -> Counts:
    return [max(numbers) for numbers in zip(*readings, strict=True)]


ESTIMATES = {Estimator.WEIGHTED: weighted, Estimator.FAST: fast}
