"""Sample a store for people: pictures of it, with rates from one to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from throttle import clock as clocks
from throttle import store
from throttle.addresses import shown
from throttle.clock import Monotonic, monotonic
from throttle.errors import ThrottleError
from throttle.model import Store, View
from throttle.overview.judge import Rates, judge
from throttle.overview.model import Picture
from throttle.settings import Settings

READ_TIMEOUT = 0.5
"""Seconds that people's questions wait for Redis; a worker's wait less."""


def open_store(settings: Settings) -> Store:
    """Return Redis, or the service before it; Misconfigured if neither is named."""
    return store.open_store(settings, timeout=READ_TIMEOUT)


def where(settings: Settings) -> str:
    """Return where traffic is counted, without credentials."""
    return shown(settings.service_url or settings.redis_url or "nowhere")


Totals = Mapping[tuple[str, ...], int]
OVER = 1.0
"""Seconds that a rate is taken over at least: workers speak every 100 ms."""


class Sampler:
    """Pictures of a store, one after the other; for one thread.

    While the store is away the last picture is repeated, with why and since when.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        clock: Monotonic = monotonic,
        now: Callable[[], float] | None = None,
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._now = now or (lambda: clocks.now().timestamp())
        self._before: tuple[float, Totals] | None = None
        self._rates: Rates | None = None
        self._answered_at: float | None = None
        """When the store answered last."""
        self._tried: float | None = None
        """When it was first asked without ever having answered."""
        self._last: Picture | None = None
        self.failure: ThrottleError | None = None
        """What the last look ended with."""

    @property
    def answered(self) -> bool:
        """Return whether the store has ever answered."""
        return self._answered_at is not None

    def sample(self) -> Picture:
        """Return how all stands now, or stood when the store answered last."""
        asked = self._clock()
        try:
            views = self._store.look()
        except ThrottleError as error:
            self.failure = error
            return self._away(str(error), asked)
        self.failure = None
        self._measure(views)
        self._answered_at, self._tried = self._clock(), None
        self._last = self._picture(views)
        return self._last

    def _picture(self, views: Mapping[str, View]) -> Picture:
        return Picture(
            at=self._now(),
            databases=judge(
                views,
                self._settings.limits,
                estimator=self._settings.estimator,
                rates=self._rates,
            ),
            estimator=str(self._settings.estimator),
        )

    def _away(self, why: str, asked: float) -> Picture:
        if self._answered_at is None and self._tried is None:
            self._tried = asked
        since = self._answered_at if self._answered_at is not None else self._tried
        known = self._last or self._picture({})
        # Rates over the outage would be shown as of its last second.
        self._before = self._rates = None
        return replace(known, away=why, since=self._clock() - (since or asked))

    def _measure(self, views: Mapping[str, View]) -> None:
        now, totals = self._clock(), totalled(views)
        if self._before is None:
            self._before = (now, totals)
            return
        then, before = self._before
        if now - then < OVER:
            return
        # A holder that was not there before has no rate yet; none is negative.
        self._rates = {
            key: max(total - before[key], 0) / (now - then)
            for key, total in totals.items()
            if key in before
        }
        self._before = (now, totals)


def totalled(views: Mapping[str, View]) -> Totals:
    """Return what each holder has admitted since its start, and of each tenant."""
    totals: dict[tuple[str, ...], int] = {}
    for name, view in views.items():
        for key, holder in view.holders.items():
            totals[name, key] = holder.holding.admitted
            totals["would", name, key] = holder.holding.would_hold
            for tenant, (_, admitted) in holder.holding.tenants.items():
                totals[name, key, tenant] = admitted
    return totals
