"""The view of databases behind the gate: figures of all, workers, tenants; in words."""

from __future__ import annotations

from collections.abc import Iterable

from celery_pecker.surfaces.views.model import Column, Figure, Table, Tone
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
    in_force = status.operations * status.factor
    words = f"{operations} of {count(in_force)}/s"
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


def _hot_note(picture: Picture) -> str:
    of_all = f"of {plural(len(picture.databases), 'database')}"
    return ", ".join(_in(picture, State.OVER)) or of_all


def _held_note(picture: Picture) -> str:
    waiting = {one.name: one.oldest for one in picture.databases if one.held}
    if not waiting:
        return "nothing waits"
    oldest = duration(max(waiting.values()))
    return f"for {', '.join(waiting)}; the oldest for {oldest}"


def _admitted(picture: Picture) -> str:
    rates = [one.rate for one in picture.databases if one.rate is not None]
    return pace(sum(rates)) if rates else NONE


def _parked_note(picture: Picture) -> str:
    parked = sum(one.parked for one in picture.databases)
    return f"{count(parked)} parked since workers began" if parked else "none parked"


def workers(picture: Picture) -> int:
    """Return how many workers were heard of, of whatever database."""
    return len({one.id for status in picture.databases for one in status.workers})


def _workers_note(picture: Picture) -> str:
    bare = ", ".join(_in(picture, State.UNGUARDED))
    return f"none for {bare}" if bare else "reported within the last second"


def _workers_tone(picture: Picture) -> Tone:
    guarded = workers(picture) and not _in(picture, State.UNGUARDED)
    return "success" if guarded else "warning"


def title(picture: Picture) -> str:
    """Return what the tab of a browser says first."""
    if hot := _in(picture, State.OVER):
        return f"({len(hot)} above) "
    return f"({count(picture.held)} held) " if picture.held else ""


FIGURES = (
    Figure(
        "hot",
        "Above their limit",
        lambda all_: count(len(_in(all_, State.OVER))),
        _hot_note,
        lambda all_: "danger" if _in(all_, State.OVER) else "success",
    ),
    Figure(
        "held",
        "Tasks held",
        lambda all_: count(all_.held),
        _held_note,
        lambda all_: "warning" if all_.held else "success",
    ),
    Figure("admitted", "Admitted", _admitted, _parked_note, lambda _: "active"),
    Figure(
        "workers",
        "Workers that hold to limits",
        lambda all_: count(workers(all_)),
        _workers_note,
        _workers_tone,
    ),
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
