"""What all pages stand on: settings, store, the last look, the cycles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from celery_pecker.surfaces.service.threads import InFlight, LastAnswer, Threads
from throttle.clock import Monotonic
from throttle.errors import StoreUnavailable
from throttle.model import (
    NOTHING,
    Admission,
    Amount,
    Estimator,
    Limit,
    Seen,
    Store,
    View,
)
from throttle.quota import quota, quota_without_answer
from throttle.settings import Settings
from throttle.store import wire

CYCLE = 1.0


class Cycles:
    """Counts what was admitted to one database: pure.

    At the beginning of a cycle of one second the quota is what the published formula
    says, ``max((limit - traffic) * 100 / limit, 0)``; nothing is admitted above the
    limit, and no more than the quota until the cycle is over. One quota for all
    callers: two dispatchers do not send twice as much.
    """

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
        return quota_without_answer(self.limit.policy, self._last)


NONE = dict.fromkeys(Estimator, NOTHING)
UNSEEN = View(seen=Seen(traffic=NONE, outside=NONE), holders={})
"""A database of which nothing was reported lately."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceState:
    """One service."""

    settings: Settings
    store: Store
    lane: Threads
    last_look: LastAnswer[Mapping[str, View]]
    """At most a tick old."""
    cycles: Mapping[str, Cycles]
    clock: Monotonic
    in_flight: InFlight = field(default_factory=InFlight)

    async def traffic(self, name: str) -> tuple[Amount | None, float]:
        """Return a database's traffic and the factor in force; None: not known now."""
        try:
            view = (await self.last_look.get()).get(name)
        except StoreUnavailable:
            return None, 1.0
        if view is None:
            return NOTHING, 1.0
        return view.seen.traffic[self.settings.estimator], view.seen.factor

    def shown(self, name: str, view: View | None) -> dict[str, object]:
        """Return all that is known of a database, with its limit and its quota."""
        view = view or UNSEEN
        shown = wire.view_out(view)
        limit = self.settings.limits.get(name)
        if limit is not None:
            traffic = view.seen.traffic[self.settings.estimator]
            shown["limit"] = [limit.operations, limit.seconds, None]
            shown["quota"] = quota(limit, traffic, view.seen.factor)
            shown["policy"] = str(limit.policy)
            shown["shadow"] = limit.shadow
        return shown
