"""How many tasks a dispatcher may send now: pure.

At the beginning of a cycle of one second the quota is what the published formula says,
``max((limit - traffic) * 100 / limit, 0)``; nothing is admitted above the limit, and no
more than the quota until the cycle is over. One quota for all who ask: two dispatchers
do not send twice as much.
"""

from __future__ import annotations

from throttle.model import Admission, Amount, Limit
from throttle.quota import quota, unheard

CYCLE = 1.0


class Cycles:
    """Counts what was admitted to one database."""

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self._began = float("-inf")
        self._quota = 0.0
        self._taken = 0.0
        self._last: float | None = None
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
        return unheard(self.limit.policy, self._last)
