"""How the databases stand, for people: the same on a terminal, in Flower, in metrics.

    Picture   one instant: databases, their workers, their tenants; immutable
    judge     from what the store knows to a picture, in words: pure
    Sum       what workers count, though they come and go: pure
    Sampler   one picture after the other: rates, and the last one while Redis is away

All of it only reads; nothing is changed.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from celery_pecker.kernel.clock import Monotonic, monotonic
from celery_pecker.kernel.clock import now as wall_clock
from celery_pecker.surfaces.views.phrases import duration, plural
from throttle import store
from throttle.addresses import shown
from throttle.errors import ThrottleError
from throttle.model import NOTHING, UNSEEN, Amount, Estimator, Limit, Store, View
from throttle.settings import Settings


class State(StrEnum):
    """How a database stands; what needs a look comes first."""

    OVER = "over"
    """It gets more than its limit."""
    HOLDING = "holding"
    """Tasks wait: the gate does what it is there for."""
    LOWERED = "lowered"
    """Nothing waits, but the second signal has lowered the limit."""
    UNGUARDED = "unguarded"
    """It has a limit and no worker that holds to it."""
    CALM = "calm"
    """Nothing waits."""
    UNLIMITED = "unlimited"
    """It is counted, and this app has no limit for it."""


ORDER = {state: place for place, state in enumerate(State)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """What a worker reported last."""

    id: str
    name: str
    share: float
    """Its part of the limit, 0 … 1."""
    held: int
    held_bytes: int
    parked: int
    admitted: int
    would_hold: int
    dropped: int
    """Operations of its process, of all databases, that are in no sum."""
    oldest: float
    """Seconds that its oldest held task has waited."""
    rate: float | None = None
    """Admitted per second since the look before; None: there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """Over all workers; the 20 of each with most held."""

    name: str
    held: int
    part: float = 0.0
    """Of all that is held for the database, 0 … 1."""
    rate: float | None = None
    """Admitted per second since the look before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How one database stands."""

    name: str
    state: State
    summary: str
    """The state in a sentence."""
    notes: tuple[str, ...] = ()
    """Further remarks for people."""
    traffic: Amount = NOTHING
    """Per second, by the estimator of the settings."""
    fast: Amount = NOTHING
    """By the fast one: what happens now."""
    outside: Amount = NOTHING
    """Of the traffic, what no gate holds back: web processes, other tools."""
    operations: float | None = None
    """The limit, per second."""
    seconds: float | None = None
    """The limit in busy connections."""
    used: float = 0.0
    """Traffic as a part of the limit in force, of the scarcer of the two; 0 if
    unlimited."""
    factor: float = 1.0
    """The limit in force is so much of the limit."""
    shadow: bool = False
    held: int = 0
    held_bytes: int = 0
    parked: int = 0
    admitted: int = 0
    would_hold: int = 0
    oldest: float = 0.0
    rate: float | None = None
    """Tasks admitted per second since the look before."""
    would_rate: float | None = None
    """Tasks per second that would have been held, in shadow mode."""
    workers: tuple[Worker, ...] = ()
    tenants: tuple[Tenant, ...] = ()

    @property
    def in_force(self) -> float:
        """Return the limit in force, operations per second; 0 if there is none."""
        return (self.operations or 0.0) * self.factor


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """How all databases stand."""

    at: float
    """Seconds since 1970, by this host."""
    databases: tuple[Status, ...]
    """What needs a look comes first."""
    estimator: str
    away: str = ""
    """Why nothing newer is known; empty: it is."""
    since: float = 0.0
    """Seconds that the store has been away."""

    def only(self, database: str) -> "Picture":
        """Return the picture of one database."""
        return replace(
            self,
            databases=tuple(one for one in self.databases if one.name == database),
        )

    @property
    def held(self) -> int:
        """Return the tasks that wait, of all databases."""
        return sum(status.held for status in self.databases)


TOLERANCE = 1.05
"""Above so much of the limit it is exceeded: less is the grain of the counting."""

LEAST = 0.001
"""Of a limit that is lowered to nothing a part is still a number."""

Rates = Mapping[tuple[str, ...], float]
"""Events per second by (database, holder) and (database, holder, tenant); with a
first word ``would`` those that would have been held."""


def judge(
    views: Mapping[str, View],
    limits: Mapping[str, Limit],
    *,
    estimator: Estimator,
    rates: Rates | None = None,
) -> tuple[Status, ...]:
    """Return how each database stands, those first that need a look.

    Those with a limit, and whatever else is counted.
    """
    rows = [
        _status(name, views.get(name, UNSEEN), limits.get(name), estimator, rates)
        for name in {**limits, **views}
    ]
    return tuple(sorted(rows, key=lambda one: (ORDER[one.state], one.name)))


SUMMED = ("held", "held_bytes", "parked", "admitted", "would_hold")
"""Fields of a database that are sums over its workers."""


def _status(
    name: str,
    view: View,
    limit: Limit | None,
    estimator: Estimator,
    rates: Rates | None,
) -> Status:
    """Return how one database stands."""
    workers = _workers(name, view, rates)
    tenants = _tenants(name, view, rates)
    traffic, outside = view.seen.traffic[estimator], view.seen.outside[estimator]
    factor = view.seen.factor
    used = limit.fraction(traffic) / max(factor, LEAST) if limit else 0.0
    held = sum(worker.held for worker in workers)
    oldest = max((worker.oldest for worker in workers), default=0.0)
    state = _state(limit, used, factor, held, workers)
    return Status(
        name=name,
        state=state,
        summary=_summary(state, limit, _waiting(held, oldest, tenants)),
        notes=tuple(_notes(view, limit, outside, used)),
        traffic=traffic,
        fast=view.seen.traffic[Estimator.FAST],
        outside=outside,
        operations=limit.operations if limit else None,
        seconds=limit.seconds if limit else None,
        used=used,
        factor=factor,
        shadow=bool(limit and limit.shadow),
        oldest=oldest,
        **{one: sum(getattr(worker, one) for worker in workers) for one in SUMMED},
        rate=_total(rates, [(name, worker.id) for worker in workers]),
        would_rate=_total(rates, [("would", name, worker.id) for worker in workers]),
        workers=workers,
        tenants=tenants,
    )


def _state(
    limit: Limit | None,
    used: float,
    factor: float,
    held: int,
    workers: tuple[Worker, ...],
) -> State:
    if limit is None:
        return State.UNLIMITED
    if used > TOLERANCE:
        return State.OVER
    if held:
        return State.HOLDING
    if factor < 1:
        return State.LOWERED
    return State.CALM if workers else State.UNGUARDED


def _waiting(held: int, oldest: float, tenants: tuple[Tenant, ...]) -> str:
    """Return how many wait, how long, and whose they are; empty if none."""
    if not held:
        return ""
    summary = f"{plural(held, 'task')} wait" + ("s" if held == 1 else "")
    if oldest:
        summary += f", the oldest for {duration(oldest)}"
    if tenants and tenants[0].held:
        whose = f"of tenant {tenants[0].name}" if tenants[0].name else "without tenant"
        summary += f", most {whose} ({tenants[0].held:,})"
    return summary


def _summary(state: State, limit: Limit | None, waiting: str) -> str:
    if state is State.OVER:
        why = "nothing is held in shadow mode" if limit and limit.shadow else ""
        return "; ".join(filter(None, ("above its limit", waiting or why)))
    return waiting if state is State.HOLDING else SUMMARIES[state]


SUMMARIES = {
    State.LOWERED: "nothing waits; the limit is lowered",
    State.UNGUARDED: "no worker holds to its limit",
    State.UNLIMITED: "counted; it has no limit in these settings",
    State.CALM: "nothing waits",
}


def _notes(
    view: View, limit: Limit | None, outside: Amount, used: float
) -> Iterable[str]:
    factor = view.seen.factor
    if factor < 1:
        why = f": {view.signal}" if view.signal else ""
        yield f"the limit is lowered to {factor:.0%}{why}"
    elif view.signal:
        yield (
            view.signal if factor == 1 else f"{factor:.0%} of the limit: {view.signal}"
        )
    if limit is None:
        return
    part = limit.fraction(outside) / max(factor, LEAST)
    if used > TOLERANCE and part > used / 2:
        yield (
            f"{part / used:.0%} of its traffic is outside the gate: processes that hold"
            " nothing, such as web servers"
        )
    others = sorted(
        {
            holder.name
            for holder in view.holders.values()
            if (holder.holding.limit.operations, holder.holding.limit.seconds or None)
            != (limit.operations, limit.seconds)
        }
    )
    if others:
        named = ", ".join(others[:3]) + (" …" if len(others) > len(others[:3]) else "")
        workers = plural(len(others), "worker")
        yield f"{workers} with another limit than in these settings: {named}"


REPORTED = (*SUMMED, "oldest", "dropped")
"""Fields of a worker that are as it reported them."""


def _workers(name: str, view: View, rates: Rates | None) -> tuple[Worker, ...]:
    rows = [
        Worker(
            id=key,
            name=holder.name,
            share=holder.share,
            rate=None if rates is None else rates.get((name, key)),
            **{one: getattr(holder.holding, one) for one in REPORTED},
        )
        for key, holder in view.holders.items()
    ]
    return tuple(sorted(rows, key=lambda one: (-one.held, -one.share, one.name)))


def _tenants(name: str, view: View, rates: Rates | None) -> tuple[Tenant, ...]:
    held: dict[str, int] = {}
    keys: dict[str, list[tuple[str, ...]]] = {}
    for key, holder in view.holders.items():
        for tenant, (waiting, _) in holder.holding.tenants.items():
            held[tenant] = held.get(tenant, 0) + waiting
            keys.setdefault(tenant, []).append((name, key, tenant))
    if set(held) <= {""}:  # no route names a tenant
        return ()
    all_ = sum(held.values()) or 1
    rows = [
        Tenant(
            name=tenant,
            held=waiting,
            part=waiting / all_,
            rate=_total(rates, keys[tenant]),
        )
        for tenant, waiting in held.items()
    ]
    return tuple(sorted(rows, key=lambda one: (-one.held, -(one.rate or 0), one.name)))


def _total(rates: Rates | None, keys: Iterable[tuple[str, ...]]) -> float | None:
    known = [rates[key] for key in keys if key in rates] if rates else []
    return sum(known) if known else None


MOST_GONE = 100
"""Workers that are remembered though they were not heard of."""


class Sum:
    """A sum that never goes back. For one thread.

    A worker that goes takes its count with it; Prometheus would take the smaller sum
    for a restart and the next for a rush.
    """

    def __init__(self) -> None:
        self.total = 0
        self._last: dict[str, int] = {}

    def add(self, counts: Mapping[str, int]) -> int:
        """Add what workers, by id, have counted since the last call; return the sum."""
        last = self._last
        self.total += sum(
            max(count - last.get(worker, 0), 0) for worker, count in counts.items()
        )
        # A worker that one read missed returns; old lives are bounded
        gone = [worker for worker in last if worker not in counts]
        kept = max(len(counts), MOST_GONE) if counts else len(gone)
        for worker in gone[: max(len(gone) - kept, 0)]:
            del last[worker]
        last.update(counts)
        return self.total


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


@dataclass(eq=False, repr=False)
class Sampler:
    """Pictures of a store, one after the other; for one thread.

    While the store is away the last picture is repeated, with why and since when.
    """

    store: Store
    settings: Settings
    clock: Monotonic = monotonic
    now: Callable[[], float] = lambda: wall_clock().timestamp()

    def __post_init__(self) -> None:
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
        asked = self.clock()
        try:
            views = self.store.look()
        except ThrottleError as error:
            self.failure = error
            return self._away(str(error), asked)
        self.failure = None
        self._measure(views)
        self._answered_at, self._tried = self.clock(), None
        self._last = self._picture(views)
        return self._last

    def _picture(self, views: Mapping[str, View]) -> Picture:
        return Picture(
            at=self.now(),
            databases=judge(
                views,
                self.settings.limits,
                estimator=self.settings.estimator,
                rates=self._rates,
            ),
            estimator=str(self.settings.estimator),
        )

    def _away(self, why: str, asked: float) -> Picture:
        if self._answered_at is None and self._tried is None:
            self._tried = asked
        since = self._answered_at if self._answered_at is not None else self._tried
        known = self._last or self._picture({})
        # Rates over the outage would be shown as of its last second.
        self._before = self._rates = None
        return replace(known, away=why, since=self.clock() - (since or asked))

    def _measure(self, views: Mapping[str, View]) -> None:
        now, totals = self.clock(), totalled(views)
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
