"""The view of observers: hosts with their room, what runs where, the life of one."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from celery_pecker.kernel.clock import to_us
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.lease import SECOND
from celery_pecker.observers import operations
from celery_pecker.observers.model import Answer, EventRow, NodeRow, ObserverRow, Place
from celery_pecker.observers.overview import (
    RANKS,
    SHOWN,
    KindRow,
    ObserversOverview,
    ObserversSummary,
    Which,
    totals,
)
from celery_pecker.schedules.overview.model import LockingSession
from celery_pecker.schedules.overview.reader import Overview
from celery_pecker.schedules.overview.verdicts import Explanation
from celery_pecker.surfaces.views.model import (
    HIDDEN,
    Act,
    Card,
    Column,
    Each,
    Figure,
    Filter,
    Measure,
    NoSuchRow,
    Query,
    Samples,
    Shown,
    Table,
    Tone,
    View,
    of_rows,
    to_mend,
    until,
)
from celery_pecker.surfaces.views.phrases import count, duration, plural

ROWS = 50
"""Observers of one page."""
HOSTS = 200
"""Hosts that a page gets, at most."""
EVENTS = 200
"""Of the life of one, the newest."""
LONGEST = 400
"""Letters of arguments and of a cursor."""
MOST_KINDS = 100
"""Kinds, at most, that have series of their own."""
LONG_WAIT = 60.0
"""Seconds for which an observer may wait for a host before it is shown as bad."""
HOST_STATES = ("up", "draining", "lapsed")
"""lapsed: the lease has ended, and no host has taken over yet."""
GONE = "This observer, or this host, is not there any more."
STOPS: Mapping[Answer, str] = {
    Answer.ASKED: "Asked to end: {what}.",
    Answer.NOT_ACTIVE_YET: "Deleted, no host had run it: {what}.",
    Answer.ALREADY_ASKED: "Asked to end before: {what}.",
}
RESTARTS: Mapping[Answer, str] = {
    Answer.ASKED: "Begins again, with all retries: {what}."
}


def read(database: Database, query: Query) -> Shown:
    """Return hosts, figures of all, a page of observers, and the life of one."""
    overview = ObserversOverview(database)
    [(now,)] = database.run("read_clock", now=None)
    place, _, name = query.get("after", "").replace("\0", "").partition(" ")
    behind = (place, name) if place in RANKS else None
    page = overview.page(chosen(query), limit=ROWS + 1, behind=behind)
    shown, summary = page.rows[:ROWS], overview.summary()
    row, events = _life(overview, query.get("name", "").replace("\0", "") or None)
    life = None
    if row is not None:
        reply = explain(database, row, summary.hosts)
        life = _about(masked(row, database)) | {"verdict": reply.shown}
    return Shown(
        now_us=now,
        summary=summary,
        rows={
            "hosts": summary.hosts[:HOSTS],
            "observers": shown,
            "events": events,
        },
        total=page.total,
        size=ROWS,
        more=len(page.rows) > ROWS,
        next=f"{shown[-1].place} {shown[-1].name}" if shown else "",
        extra={
            "warning": not_sent(summary),
            "life": life,
        },
    )


def chosen(query: Query) -> Which:
    """Return the observers that filters leave."""
    return Which(**OBSERVERS_TABLE.asked(query))


def not_sent(summary: ObserversSummary) -> str:
    """Return which signatures could not be sent, and why; empty: all were."""
    unsent = summary.unsent
    if not unsent.count:
        return ""
    error = (unsent.error or "")[:LONGEST]
    return (
        f"{plural(unsent.count, 'signature')} of on_parked and on_moved not sent, the"
        f" oldest for {duration(unsent.oldest)}: {error}"
    )


def _life(
    overview: ObserversOverview, name: str | None
) -> tuple[ObserverRow | None, Sequence[EventRow]]:
    """Return an observer with what happened to it, newest first; None: none is asked.

    Of a name that was used again the row is the newest, and so are the events.
    """
    row = None if name is None else overview.get(name)
    if row is None:
        return None, ()
    events = overview.history(row.name, limit=EVENTS)
    return row, [one for one in events if one.observer == row.id]


def masked(row: ObserverRow, database: Database) -> ObserverRow:
    """Return an observer as people may see it: its arguments may be hidden."""
    if database.shows_arguments:
        return row
    state = None if row.state is None else HIDDEN
    return replace(row, args=dict.fromkeys(row.args, HIDDEN), state=state)


def explain(
    database: Database, row: ObserverRow, hosts: Sequence[NodeRow]
) -> Explanation:
    """Return why an observer runs or does not."""
    lockers = database.column("read_observer_locker", id=row.id)
    locks = Overview(database).locks("pecker_observers", "".join(lockers))
    [(now_us,)] = database.run("read_clock", now=None)
    left = max((to_us(row.not_before) - now_us) / SECOND, 0.0)
    tries = f"{plural(row.failures, 'failure')} in a row"
    fact = f"{tries}, moved {plural(row.moves, 'time')}, epoch {row.epoch}"
    return replace(next(explained(row, hosts, locks, left)), facts=[fact])


def explained(
    row: ObserverRow,
    hosts: Sequence[NodeRow],
    locks: Sequence[LockingSession] = (),
    left: float = 0.0,
) -> Iterator[Explanation]:
    """Yield why an observer runs or does not: the first is the root. Pure.

    Args:
        row: it.
        hosts: those that live.
        locks: sessions that keep hosts from its row.
        left: seconds until its code may be called.
    """
    host = next((one for one in hosts if one.node == row.node), None)
    where = f"host {row.node_name or row.node}"
    if row.place is Place.PARKED:
        why = f"it is parked: {row.last_error}"
        yield Explanation("parked", why, "mend what its error says, and restart it")
    if row.place is Place.GONE:
        yield Explanation("gone", "it has ended, and is deleted")
    if locks and row.place in {Place.WAITING, Place.STOPPING}:
        yield Explanation.locked(f"it is {row.place}", locks[0], "pecker_observers")
    if row.place is Place.WAITING:
        yield from _waits(row, hosts, left)
    if host is None or host.lease <= 0:
        yield Explanation(
            "lapsed",
            f"the lease of its {where} is over: that is dead, hangs, or is cut off",
            "another host takes it within seconds, if one lives",
        )
    if row.place is Place.STOPPING:
        why = f"its end was asked for, and {where} has not reported it"
        yield Explanation("stopping", why)
    if row.place is Place.RETRYING:
        why = f"its code failed: {row.last_error}; {where} calls it again"
        yield Explanation("retrying", f"{why} in {duration(left)}")
    yield Explanation("running", f"it runs on {where}")


def _waits(
    row: ObserverRow, hosts: Sequence[NodeRow], left: float
) -> Iterator[Explanation]:
    """Yield what an observer that no host runs waits for."""
    taking = [one for one in hosts if one.state == "up" and one.lease > 0]
    able = [one for one in taking if row.kind in one.kinds]
    start = "start a host: celery -A proj pecker observe"
    if left:
        yield Explanation("to_come", f"a host may take it in {duration(left)}")
    if not able:
        what = f"has the kind {row.kind!r}" if taking else "takes observers"
        yield Explanation("no_host", f"it waits: no living host {what}", start)
    free = max(one.capacity - one.load for one in able)
    if free < row.weight:
        why = f"it waits: its weight is {row.weight}, and no host has more room than"
        yield Explanation("no_room", f"{why} {max(free, 0)}", start)
    yield Explanation("waiting", "a host takes it within seconds")


def _about(row: ObserverRow) -> dict[str, Any]:
    """Return what the picture of a life needs beside its events."""
    return {
        "id": str(row.id),
        "name": row.name,
        "place": row.place,
        "about": [
            f"{row.status}, {row.place}, epoch {row.epoch}, weight {row.weight}",
            f"arguments {_json(row.args)}",
            *([] if row.state is None else [f"cursor {_json(row.state)}"]),
        ],
    }


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)[:LONGEST]


def _needed_error(row: ObserverRow) -> str | None:
    needs_look = row.place in {Place.PARKED, Place.RETRYING}
    return row.last_error if needs_look else None


def host_state(host: NodeRow) -> str:
    """Return the state of a host: up, draining, lapsed or dead."""
    return host.state if host.lease > 0 else "lapsed"


# Acts


def _act(
    name: str,
    does: Callable[[Database, str], Answer | int],
    says: str | Mapping[Answer, str],
    states: tuple[str, ...],
    asks: str = "",
) -> Act:
    """Return an act; an answer of which nothing is said is a refusal."""

    def call(database: Database, key: str, user: str) -> object:
        answer = does(database, key)
        if not answer if isinstance(says, str) else answer not in says:
            raise NoSuchRow(GONE)
        return answer

    def every(database: Database, query: Query, user: str) -> int:
        overview, which = ObserversOverview(database), chosen(query)
        total = overview.page(which, limit=1).total
        rows = overview.page(which, limit=total).rows
        last = until(query, 0)
        rows = [one for one in rows if last is None or one.created_at <= last]
        keys = [one.name for one in rows if one.place in states]
        return sum(does(database, key) in says for key in keys)

    return Act(
        name,
        name.capitalize(),
        call,
        says,
        asks=asks,
        undo=bool(asks),
        states=states,
        every=None if isinstance(says, str) else every,
    )


HANDS_OVER = "Hands over what it holds, and takes nothing more: {what}."
TAKES = "Takes observers again: {what}."


# Figures


def _running(all_: ObserversSummary) -> Card:
    retried, stopping = all_.count(Place.RETRYING), all_.count(Place.STOPPING)
    parts = [
        plural(retried, "is tried again", "are tried again") if retried else "",
        plural(stopping, "stops", "stop") if stopping else "",
    ]
    note = ", ".join(part for part in parts if part) or "all well"
    return Card(count(all_.count(Place.RUNNING)), note)


def _waiting(all_: ObserversSummary) -> Card:
    waiting, oldest = all_.count(Place.WAITING), all_.oldest_waiting
    note = "none" if oldest is None else f"the oldest for {duration(oldest)}"
    busy: Tone = "active" if waiting else "success"
    return Card(count(waiting), note, "danger" if (oldest or 0.0) > LONG_WAIT else busy)


def _free(all_: ObserversSummary) -> Card:
    hosts = f"{count(len(all_.taking))} of {plural(len(all_.hosts), 'host')}"
    note = f"of {count(all_.capacity)}, on {hosts}"
    return Card(count(all_.free), note, "success" if all_.free else "danger")


FIGURES = (
    Figure("running", "Running", _running),
    Figure("waiting", "Waiting for a host", _waiting),
    Figure("parked", "Parked", lambda all_: to_mend(all_.count(Place.PARKED))),
    Figure("free", "Room on hosts", _free),
)


# Metrics


def _kinds(summary: ObserversSummary) -> Sequence[KindRow]:
    """Return the kinds, or one for all where they are too many. Pure."""
    few = len(summary.kinds) <= MOST_KINDS
    return summary.kinds if few else [totals(summary.kinds)]


def _at(place: str, kind: KindRow) -> int:
    return kind.places[Place(place)]


_of_kinds = Each(_kinds, {"kind": "kind"})


def _by_place(summary: ObserversSummary) -> Samples:
    """Yield a sample for each place, with 0: an alert sees the first parked one."""
    for one in _kinds(summary):
        for place in SHOWN:
            yield [one.kind, str(place)], one.places[place]


def _by_state(summary: ObserversSummary) -> Samples:
    states = [host_state(one) for one in summary.hosts]
    yield from (([state], states.count(state)) for state in HOST_STATES)


MEASURES = (
    Measure(
        "observers",
        "Observers that are not deleted, by where they are",
        _by_place,
        labels=("kind", "place"),
    ),
    _of_kinds("observers_weight", "The sum of their weights", "weight"),
    _of_kinds(
        "observers_moves",
        "How often those that are there have moved to another host",
        "moves",
    ),
    Measure("observer_hosts", "Hosts of observers", _by_state, labels=("state",)),
    Measure(
        "observer_hosts_capacity",
        "Weights that hosts which take observers may hold",
        "capacity",
    ),
    Measure("observer_hosts_held", "Weights that hosts hold", "held"),
    Measure(
        "observer_hosts_free",
        "Weights that hosts which take observers have room for",
        "free",
    ),
    Measure(
        "observers_oldest_waiting_seconds",
        "For how long the oldest that a host may take has waited; 0: none waits",
        "oldest_waiting",
    ),
    Measure(
        "observer_notices_failing",
        "Signatures of on_parked and on_moved that could not be sent so far",
        "unsent.count",
    ),
    Measure(
        "observer_notices_failing_seconds",
        "For how long the oldest of them could not be sent; 0: there is none",
        "unsent.oldest",
    ),
)


# Tables

_error = Column("error", "error", "error", width="tablet")
_RUNS = ("parked", "waiting", "retrying", "running")
HOSTS_TABLE = Table(
    name="hosts",
    title="Hosts",
    key="node",
    columns=(
        # Two on one machine may have one name: their processes tell them apart.
        Column("name", "host", "name", notes=("pid",)),
        Column("state", "state", "state", value=host_state),
        Column("load", "load", "count"),
        Column("capacity", "capacity", "count"),
        Column("observers", "observers", "count"),
        Column("lease", "lease", "duration"),
        Column("node", "id"),
    ),
    empty="No host lives: nothing runs.",
    acts=(
        _act("drain", operations.drain, HANDS_OVER, ("up", "lapsed")),
        _act("undrain", operations.undrain, TAKES, ("draining",)),
    ),
    nouns=("host", "hosts"),
    by_hand=True,
)
KINDS = Table(
    name="kinds",
    title="Kinds",
    key="kind",
    columns=(
        Column("kind", "kind", "name"),
        *(Column(one, one, "count", partial(_at, one)) for one in map(str, SHOWN)),
        Column("weight", "weight", "count"),
        Column("moves", "moves", "count"),
    ),
    empty="There is no observer.",
)
OBSERVERS_TABLE = Table(
    name="observers",
    title="Observers",
    key="name",
    columns=(
        Column("place", "place", "state"),
        Column("name", "observer", "name", notes=("kind",), chooses="name"),
        Column(
            "node",
            "host",
            value=lambda row: row.node_name or row.node or "",
            width="tablet",
        ),
        Column("weight", "weight", "count", width="desk"),
        Column("moves", "moves", "count", width="desk"),
        Column(
            "last_error", "last error", "error", value=_needed_error, width="tablet"
        ),
    ),
    empty="No such observer.",
    state="place",
    states={
        "waiting": "asked",
        "running": "done",
        "retrying": "missed",
        "parked": "bad",
        "stopping": "idle",
    },
    acts=(
        _act("restart", operations.restart, RESTARTS, _RUNS),
        _act(
            "stop",
            operations.stop,
            STOPS,
            _RUNS,
            asks="A life ends, and no host runs it again.",
        ),
    ),
    paged="behind",
    nouns=("observer", "observers"),
    filters=(
        Filter("search", "Search names and kinds", kind="search"),
        Filter("place", "everywhere", kind="choice", choices=RANKS),
        Filter("kind", "Kind", known=lambda all_: [k.kind for k in all_.summary.kinds]),
        Filter("node", "Host", known=of_rows("hosts", "name")),
    ),
)
EVENTS_TABLE = Table(
    name="events",
    title="Events",
    key="id",
    columns=(
        Column("at", "at", "instant"),
        Column("event", "event", "name"),
        Column("host", "host", value=lambda row: row.node_name or row.node),
        Column("epoch", "epoch", "text", width="desk"),
        _error,
    ),
    empty="Nothing has happened yet.",
    by_hand=True,
)
OBSERVERS = View(
    name="observers",
    title="Observers",
    read=read,
    tables=(HOSTS_TABLE, EVENTS_TABLE, OBSERVERS_TABLE),
    figures=FIGURES,
    measures=MEASURES,
)
