"""The view of databases behind the gate: figures of all, workers, tenants; in words."""

from collections.abc import Iterable

from celery_pecker.surfaces.views.model import Card, Column, Figure, Table
from celery_pecker.surfaces.views.phrases import NONE, count, duration, pace, plural
from throttle.overview import Picture, State, Status, Tenant, Worker

# Words for a terminal and a page


def size(number: float) -> str:
    """Return bytes for people."""
    for unit in ("B", "kB", "MB"):
        if number < 1000:  # noqa: PLR2004 — the next unit
            return f"{number:.0f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"


def admitted(of: Status | Worker | Tenant, total: int | None = None) -> str:
    """Return how many per second, or in all while that is not known."""
    if of.rate is None:
        return NONE if total is None else f"{total:,} in all"
    return pace(of.rate)


def amounts(status: Status) -> str:
    """Return the traffic, against the limit in force if there is one."""
    operations = count(status.traffic.operations)
    if status.operations is None:
        busy = status.traffic.seconds
        return f"{operations} operations/s, {busy:.1f} connections busy"
    words = f"{operations} of {count(status.in_force)}/s"
    if status.factor < 1:
        words += f" (else {count(status.operations)})"
    if status.seconds is not None:
        busy = status.seconds * status.factor
        words += f", {status.traffic.seconds:.1f} of {busy:g} busy"
    return words


def flow(status: Status) -> Iterable[str]:
    """Yield what came of the traffic of tasks: held, parked, admitted."""
    if not status.workers:
        return
    yield f"held {status.held:,}"
    if status.held_bytes:
        yield size(status.held_bytes)
    if status.parked:
        yield f"parked {status.parked:,}"
    yield f"admitted {admitted(status, status.admitted)}"
    if status.shadow or status.would_hold:
        would = status.would_rate
        told = f"{status.would_hold:,} in all" if would is None else pace(would)
        yield f"would hold {told}"


def outage(picture: Picture, policies: Iterable[str] = ()) -> str:
    """Return why nothing newer is known, and what workers do; empty: it is known."""
    if not picture.away:
        return ""
    named = ", ".join(sorted({*policies}))
    return (
        f"No answer for {duration(picture.since)}: {picture.away}. Workers go by the"
        f" policy of each limit{f' ({named})' if named else ''}; what is shown was seen"
        " last."
    )


# Figures


def _in(picture: Picture, state: State) -> list[str]:
    """Return the databases in a state."""
    return [one.name for one in picture.databases if one.state is state]


def _hot(all_: Picture) -> Card:
    if hot := _in(all_, State.OVER):
        return Card(count(len(hot)), ", ".join(hot), "danger")
    return Card("0", f"of {plural(len(all_.databases), 'database')}")


def _held(all_: Picture) -> Card:
    waiting = {one.name: one.oldest for one in all_.databases if one.held}
    if not waiting:
        return Card("0", "nothing waits")
    oldest = duration(max(waiting.values()))
    note = f"for {', '.join(waiting)}; the oldest for {oldest}"
    return Card(count(all_.held), note, "warning")


def _admitted(all_: Picture) -> Card:
    rates = [one.rate for one in all_.databases if one.rate is not None]
    parked = sum(one.parked for one in all_.databases)
    note = f"{count(parked)} parked since workers began" if parked else "none parked"
    return Card(pace(sum(rates)) if rates else NONE, note, "active")


def workers(picture: Picture) -> int:
    """Return how many workers were heard of, of whatever database."""
    return len({one.id for status in picture.databases for one in status.workers})


def _workers(all_: Picture) -> Card:
    known, bare = workers(all_), ", ".join(_in(all_, State.UNGUARDED))
    note = f"none for {bare}" if bare else "reported within the last second"
    return Card(count(known), note, "success" if known and not bare else "warning")


def title(picture: Picture) -> str:
    """Return what the tab of a browser says first."""
    if hot := _in(picture, State.OVER):
        return f"({len(hot)} above) "
    return f"({count(picture.held)} held) " if picture.held else ""


FIGURES = (
    Figure("hot", "Above the limit", _hot),
    Figure("held", "Held tasks", _held),
    Figure("admitted", "Admitted", _admitted),
    Figure("workers", "Throttled workers", _workers),
)


# Tables

DATABASES = Table(
    name="databases",
    title="Databases",
    key="name",
    columns=(
        Column("name", "database", "name"),
        Column("state", "state", "state"),
        Column("summary", "summary"),
    ),
    empty="Nothing is counted and nothing has a limit.",
    states={
        State.OVER: "bad",
        State.HOLDING: "missed",
        State.LOWERED: "asked",
        State.UNGUARDED: "refused",
        State.CALM: "done",
        State.UNLIMITED: "none",
    },
    by_hand=True,
)
WORKERS = Table(
    name="workers",
    title="Workers",
    key="id",
    columns=(
        Column("name", "worker", "name"),
        Column(
            "share", "share", "part", value=lambda row: (f"{row.share:.0%}", row.share)
        ),
        Column("held", "held", "count"),
        Column(
            "oldest",
            "oldest",
            "duration",
            value=lambda row: row.oldest if row.held else None,
            width="tablet",
        ),
        Column(
            "rate",
            "admitted",
            "figure",
            value=lambda row: admitted(row, row.admitted),
        ),
    ),
    by_hand=True,
)
TENANTS = Table(
    name="tenants",
    title="Tenants",
    key="name",
    columns=(
        Column("name", "tenant", "name", value=lambda row: row.name or "(none)"),
        Column("held", "held", "part", value=lambda row: (count(row.held), row.part)),
        Column("rate", "admitted", "figure", value=admitted),
    ),
    by_hand=True,
)
