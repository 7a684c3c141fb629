"""How many tasks a dispatcher may start in one cycle, as published."""

from __future__ import annotations

from throttle.model import Amount, Limit, Policy

IDLE = 100.0
"""Tasks per cycle while a database does nothing else."""
SAFE = 0.5
LEAST = 5.0
"""Tasks per cycle that policy `safe` leaves at least: what was heard last may have been
a full database, and the store may be away for hours."""


def quota(limit: Limit, traffic: Amount, factor: float = 1.0) -> float:
    """Return ``max((limit - traffic) * 100 / limit, 0)`` of the scarcer dimension.

    The limit is the one in force: `factor` is what the second signal has left of it.
    0 means that the cycle starts nothing on this database.
    """
    if factor <= 0:
        return 0.0
    left = [_left(limit.operations * factor, traffic.operations)]
    if limit.seconds is not None:
        left.append(_left(limit.seconds * factor, traffic.seconds))
    return max(min(left), 0.0)


def _left(limit: float, traffic: float) -> float:
    # Rounded, or what is left of 0.7 of 300 would be 0.9999999999999973 tasks: none.
    return round((limit - traffic) * IDLE / limit, 9)


def quota_without_answer(policy: Policy, last: float | None) -> float:
    """Return the quota without an answer; `last` is the quota of the last one.

    ``safe``: half of it, no less than 5; if there never was an answer, half of an idle
    database's.
    """
    match policy:
        case Policy.OPEN:
            return float("inf")
        case Policy.CLOSED:
            return 0.0
        case Policy.SAFE:
            return max((IDLE if last is None else last) * SAFE, LEAST)
