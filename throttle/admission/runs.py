"""Runs that were admitted, until they have been seen to end."""

from __future__ import annotations

from throttle.admission.costs import Cost
from throttle.admission.flow import spread_of
from throttle.model import TICK, Amount, Target

TAIL = 0.25
"""Part of its usual duration that a run is expected to last at least, however old."""
PRIOR = 0.5
"""Usual durations that what is usual weighs, against what was seen of this very run."""
UNDER_WAY = 0.1
"""Of the variance, what is left once a run has been seen: its own rate is known."""


class Admitted:
    """A run that was let in. Made for each task: no dataclass, every 100 ns count."""

    __slots__ = (
        "cost",
        "ended",
        "operations",
        "operations_variance",
        "seconds",
        "seconds_variance",
        "seen",
        "spread",
        "target",
        "task",
        "young",
    )

    def __init__(self, target: Target, task: str, cost: Cost, young: bool) -> None:
        self.target = target
        self.task = task
        self.cost = cost
        self.operations = cost.operations
        """Still expected of it."""
        self.seconds = cost.seconds
        self.operations_variance = cost.operations_variance
        self.seconds_variance = cost.seconds_variance
        self.spread = cost.spread
        self.young = young
        """Its kind was not known when it came."""
        self.seen = False
        """A reading told of it."""
        self.ended = 0
        """Readings since the worker saw its end that told nothing of it."""

    def left(self, spent: Amount, elapsed: float) -> tuple[float, float, float]:
        """Return what is still expected: operations, seconds, and for how long.

        Of a long run its own rate says more than what others cost, the more the older
        it is: one that is twice as large as usual is known as such after a tick.
        """
        cost = self.cost
        usual = cost.duration
        if usual <= 2 * TICK or elapsed <= TICK:
            return (
                max(cost.operations - spent.operations, 0.0),
                max(cost.seconds - spent.seconds, 0.0),
                usual - elapsed,
            )
        lasts = max(usual - elapsed, TAIL * usual)
        part = lasts / (elapsed + PRIOR * usual)
        return (
            (spent.operations + PRIOR * cost.operations) * part,
            (spent.seconds + PRIOR * cost.seconds) * part,
            lasts,
        )

    def expect(self, left: tuple[float, float, float]) -> None:
        """It was seen, and that is what is still expected of it."""
        self.operations, self.seconds = left[0], left[1]
        self.spread = spread_of(left[2])
        if not self.seen:
            self.seen = True
            self.operations_variance *= UNDER_WAY
            self.seconds_variance *= UNDER_WAY
