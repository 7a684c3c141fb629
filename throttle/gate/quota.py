"""How many tasks a dispatcher may start in one cycle: pure."""

from __future__ import annotations

from throttle.model import Estimator, Limit, Policy, Seen
from throttle.window import estimators

IDLE = 100.0
"""Tasks per cycle while a database does nothing else."""
LEAST = 5.0
"""Tasks per cycle that policy `safe` leaves at least: what was heard last may have been
a full database, and the store may be away for hours."""


def quota(limit: Limit, seen: Seen, estimator: Estimator) -> float:
    """Return ``max((limit - traffic) * 100 / limit, 0)`` of the scarcer dimension.

    The limit is the one in force: what the second signal has left of it.
    """
    # Rounded, or 900 of 1,000 would leave 9.999999999999998 tasks, which are nine.
    return round(estimators.quota(limit, seen.traffic[estimator], seen.factor), 9)


def unheard(policy: Policy, last: float | None) -> float:
    """Return the quota while nothing is heard; `last` is the quota of the last answer.

    ``safe``: half of it, no less than 5; if there never was an answer, half of an idle
    database's.
    """
    match policy:
        case Policy.OPEN:
            return float("inf")
        case Policy.CLOSED:
            return 0.0
        case Policy.SAFE:
            return max((IDLE if last is None else last) / 2, LEAST)
