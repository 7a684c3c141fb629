"""How many tasks a dispatcher may send now: pure.

At the beginning of a cycle of one second the quota is what the published formula says,
``max((limit - traffic) * 100 / limit, 0)``; nothing is admitted above the limit, and no
more than the quota until the cycle is over. One quota for all who ask: two dispatchers
do not send twice as much.
"""

from __future__ import annotations

from throttle.model import Admission, Amount, Limit, Policy

CYCLE = 1.0
WHOLE = 100.0
"""The quota of an idle database."""
SAFE = 0.5
LEAST = 5.0
"""Tasks per cycle that policy `safe` leaves at least: what was heard last may have been
a full database, and the store may be away for hours."""


def quota(limit: Limit, traffic: Amount, factor: float = 1.0) -> float:
    """Return how many tasks a cycle may send; `factor` of the limit is in force."""
    if factor <= 0:
        return 0.0
    # In this order: of 5,000 less 4,500 are exactly 10 tasks left, not 9.99…
    left = [_left(limit.operations * factor, traffic.operations)]
    if limit.seconds is not None:
        left.append(_left(limit.seconds * factor, traffic.seconds))
    return max(min(left), 0.0)


def _left(limit: float, traffic: float) -> float:
    return (limit - traffic) * WHOLE / limit


class Cycles:
    """Counts what was admitted to one database."""

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self._began = float("-inf")
        self._quota = 0.0
        self._taken = 0.0
        self._last = WHOLE
        self.admitted = 0.0
        """Tasks, since the start."""
        self.would_hold = 0.0
        """Tasks that shadow mode let pass, since the start."""

    def admit(
        self, cost: float, now: float, traffic: Amount | None, factor: float = 1.0
    ) -> Admission:
        """Return whether so many tasks may be sent; without traffic, by the policy."""
        open_now = self._open_now(traffic, factor)
        if now - self._began >= CYCLE:
            self._began, self._taken, self._quota = now, 0.0, open_now
        # Traffic that rose since counts at once, traffic that fell at the next cycle
        left = min(self._quota, open_now) - self._taken
        fits = cost <= left
        if not fits and self.limit.shadow:
            self.would_hold += cost
        admitted = fits or self.limit.shadow
        if admitted:
            self._taken += cost
            self.admitted += cost
        return Admission(
            admitted=admitted,
            remaining=max(left - (cost if admitted else 0.0), 0.0),
            retry_after=0.0 if admitted else self._began + CYCLE - now,
        )

    def _open_now(self, traffic: Amount | None, factor: float) -> float:
        if traffic is not None:
            self._last = quota(self.limit, traffic, factor)
            return self._last
        if self.limit.policy is Policy.OPEN:
            return float("inf")
        if self.limit.policy is Policy.CLOSED:
            return 0.0
        return max(self._last * SAFE, LEAST)
