"""What all pages stand on: settings, store, the last look, the cycles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from celery_pecker.service.threads import InFlight, Threads
from throttle.clock import Monotonic
from throttle.errors import Away
from throttle.model import NOTHING, Amount, Estimator, Seen, Store, View
from throttle.quota import quota
from throttle.service.cycles import Cycles
from throttle.service.view_cache import ViewCache
from throttle.settings import Settings
from throttle.store import wire

NONE = dict.fromkeys(Estimator, NOTHING)
UNSEEN = View(seen=Seen(traffic=NONE, outside=NONE), holders={})
"""A database of which nothing was reported lately."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceState:
    """One service."""

    settings: Settings
    store: Store
    lane: Threads
    view_cache: ViewCache
    cycles: Mapping[str, Cycles]
    clock: Monotonic
    in_flight: InFlight = field(default_factory=InFlight)

    async def traffic(self, name: str) -> tuple[Amount | None, float]:
        """Return a database's traffic and the factor in force; None: not known now."""
        try:
            view = (await self.view_cache.views()).get(name)
        except Away:
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
