"""Judge what the store knows for people. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from celery_pecker.surfaces.views.phrases import duration, plural
from throttle.model import NOTHING, Amount, Estimator, Limit, View
from throttle.overview.model import ORDER, State, Status, Tenant, Worker

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
        status(name, views.get(name), limits.get(name), estimator, rates)
        for name in {**limits, **views}
    ]
    return tuple(sorted(rows, key=lambda one: (ORDER[one.state], one.name)))


def status(
    name: str,
    view: View | None,
    limit: Limit | None,
    estimator: Estimator,
    rates: Rates | None,
) -> Status:
    """Return how one database stands."""
    workers = _workers(name, view, rates)
    tenants = _tenants(name, view, rates)
    traffic = _of(view.seen.traffic if view else {}, estimator)
    fast = _of(view.seen.traffic if view else {}, Estimator.FAST)
    outside = _of(view.seen.outside if view else {}, estimator)
    factor = view.seen.factor if view else 1.0
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
        fast=fast,
        outside=outside,
        operations=limit.operations if limit else None,
        seconds=limit.seconds if limit else None,
        used=used,
        factor=factor,
        shadow=bool(limit and limit.shadow),
        held=held,
        held_bytes=sum(worker.held_bytes for worker in workers),
        parked=sum(worker.parked for worker in workers),
        admitted=sum(worker.admitted for worker in workers),
        would_hold=sum(worker.would_hold for worker in workers),
        oldest=oldest,
        rate=_total(rates, [(name, worker.id) for worker in workers]),
        would_rate=_total(rates, [("would", name, worker.id) for worker in workers]),
        workers=workers,
        tenants=tenants,
    )


def _of(amounts: Mapping[Estimator, Amount], estimator: Estimator) -> Amount:
    return amounts.get(estimator, NOTHING)


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
    match state:
        case State.OVER:
            why = "nothing is held in shadow mode" if limit and limit.shadow else ""
            more = waiting or why
            return "above its limit" + (f"; {more}" if more else "")
        case State.HOLDING:
            return waiting
        case State.LOWERED:
            return "nothing waits; the limit is lowered"
        case State.UNGUARDED:
            return "no worker holds to its limit"
        case State.UNLIMITED:
            return "counted; it has no limit in these settings"
        case State.CALM:
            return "nothing waits"


def _notes(
    view: View | None, limit: Limit | None, outside: Amount, used: float
) -> Iterable[str]:
    if view is None:
        return
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


def _workers(name: str, view: View | None, rates: Rates | None) -> tuple[Worker, ...]:
    rows = [
        Worker(
            id=key,
            name=holder.name,
            share=holder.share,
            held=holder.holding.held,
            held_bytes=holder.holding.held_bytes,
            parked=holder.holding.parked,
            dropped=holder.holding.dropped,
            admitted=holder.holding.admitted,
            would_hold=holder.holding.would_hold,
            oldest=holder.holding.oldest,
            rate=None if rates is None else rates.get((name, key)),
        )
        for key, holder in (view.holders if view else {}).items()
    ]
    return tuple(sorted(rows, key=lambda one: (-one.held, -one.share, one.name)))


def _tenants(name: str, view: View | None, rates: Rates | None) -> tuple[Tenant, ...]:
    held: dict[str, int] = {}
    keys: dict[str, list[tuple[str, ...]]] = {}
    for key, holder in (view.holders if view else {}).items():
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
