"""Runs that were admitted, until they have been seen to end."""

from __future__ import annotations

from throttle.admission.costs import KNOWN, Cost
from throttle.admission.flow import spread_of
from throttle.model import TICK, Amount, Target

TAIL = 0.25
"""Part of its usual duration that a run is expected to last at least, however old."""
PRIOR = 0.5
"""Usual durations that what is usual weighs, against what was seen of this very run."""
UNDER_WAY = 0.1
"""Of the variance, what is left once a run has been seen: its own rate is known."""


class Expected:
    """What is expected of each run of a kind that comes in now. It does not change.

    Some runs may be let in ahead, and their cost taken: each of them takes a pass then.
    Runs that come in share it until a reading tells of them: nothing is made for each.
    """

    __slots__ = (
        "ahead",
        "cost",
        "parts",
        "passes",
        "spread",
        "target",
        "task",
        "until",
        "young",
    )

    def __init__(self, target: Target, task: str, cost: Cost) -> None:
        self.target = target
        self.task = task
        self.cost = cost
        self.parts = (
            (cost.operations, cost.operations_variance),
            (cost.seconds, cost.seconds_variance),
        )
        """Means and variances, of operations and of seconds."""
        self.spread = cost.spread
        self.young = cost.runs < KNOWN
        """The kind is not known yet."""
        self.ahead = 0
        """Runs that were let in ahead."""
        self.passes = 0
        """Of them, those that have not come yet."""
        self.until = 0.0
        """When what is left of them is void, monotonic."""


class UnderWay:
    """A run of a reading."""

    __slots__ = (
        "kind",
        "parts",
        "spread",
    )

    def __init__(
        self, kind: Expected, duration: float, spent: Amount, elapsed: float
    ) -> None:
        self.kind = kind
        means, lasts = left(kind, duration, spent, elapsed)
        self.parts = tuple(
            (mean, variance * UNDER_WAY)
            for mean, (_, variance) in zip(means, kind.parts, strict=True)
        )
        """Means and variances of what is still expected of it."""
        self.spread = spread_of(lasts)


def left(
    kind: Expected, usual: float, spent: Amount, elapsed: float
) -> tuple[list[float], float]:
    """Return what is still expected: operations and seconds, and for how long.

    Of a long run its own rate says more than what others cost, the more the older it
    is: one that is twice as large as usual is known as such after a tick.
    """
    parts = list(zip(spent, kind.parts, strict=False))
    if usual <= 2 * TICK or elapsed <= TICK:
        return [max(mean - done, 0.0) for done, (mean, _) in parts], usual - elapsed
    lasts = max(usual - elapsed, TAIL * usual)
    rest = lasts / (elapsed + PRIOR * usual)
    return [(done + PRIOR * mean) * rest for done, (mean, _) in parts], lasts
