"""The view of an outbox: what waits, when it will be empty, what is parked and why."""

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from celery_pecker.kernel.clock import from_us
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.error_groups import ErrorGroup, Seen, grouped
from celery_pecker.outbox import operations
from celery_pecker.outbox.operations import Which
from celery_pecker.outbox.overview import (
    MessageRow,
    OutboxOverview,
    OutboxSummary,
    RelayRow,
)
from celery_pecker.schedules.overview.model import LockingSession
from celery_pecker.schedules.overview.reader import Overview
from celery_pecker.schedules.overview.verdicts import Explanation
from celery_pecker.surfaces.views.error_groups import groups_table, note_of
from celery_pecker.surfaces.views.model import (
    AGE,
    HIDDEN,
    Act,
    Card,
    Column,
    Figure,
    Filter,
    Measure,
    NoSuchRow,
    Query,
    Samples,
    Shown,
    Table,
    View,
    of_rows,
    pair,
    to_mend,
    until,
)
from celery_pecker.surfaces.views.phrases import count, duration, plural, rate

COUNTED = {"task", "parked"}
"""Filters that leave rows of which the figures know how many they are."""
ROWS = 100
"""Messages that a page gets, at most."""
GROUPED = 1_000
"""Parked messages whose errors are grouped, at most."""
LARGEST_ID = 2**63 - 1
IDS = re.compile(r"(?<![^\s,])[0-9]{1,18}(?![^\s,])")
GONE = "This message is not in the outbox any more."


def read(database: Database, query: Query) -> Shown:
    """Return the figures of all, those of each task, and the messages asked for."""
    overview = OutboxOverview(database)
    [(now,)] = database.run("read_clock", now=None)
    which = chosen(query, now)
    rows = overview.rows(which, limit=ROWS + 1, behind=pair(query.get("after", "")))
    shown, summary = rows[:ROWS], overview.summary()
    groups, note = error_groups(database) if summary.parked else ([], "")
    asked = MESSAGES.asked(query)
    narrowed = any(asked[key] for key in asked.keys() - COUNTED)
    return Shown(
        total=None if narrowed else _matching(summary, which),
        size=ROWS,
        now_us=now,
        summary=summary,
        rows={"tasks": summary.tasks, "groups": groups, "messages": shown},
        notes={"groups": note},
        more=len(rows) > ROWS,
        next="{}.{}".format(*shown[-1].place) if shown else "",
    )


def error_groups(database: Database) -> tuple[list[ErrorGroup], str]:
    """Return why messages are parked, by errors that are one, and what is left out."""
    parked = OutboxOverview(database).rows(Which(parked=True), limit=GROUPED)
    groups = grouped(map(_seen, parked))
    return groups, note_of(len(parked), GROUPED, "parked messages")


def _seen(row: MessageRow) -> Seen:
    return Seen(
        id=row.id,
        of=row.task,
        type="",
        message=row.last_error or "by hand",
        traceback=None,
        at=row.parked_at or row.created_at,
    )


def retry_group(database: Database, key: str, **due: Any) -> int:
    """Retry all parked messages of an error, some at a time; raise NoSuchRow.

    ``due``: when, as `operations.retry` has it.
    """
    overview = OutboxOverview(database)
    [(now,)] = database.run("read_clock", now=None)
    which, behind, count = Which(parked=True, until=from_us(now)), None, 0
    while rows := overview.rows(which, limit=GROUPED, behind=behind):
        behind = rows[-1].place
        ids = [row.id for row in rows if _seen(row).fingerprint == key]
        if ids:
            count += operations.retry(database, Which(ids=ids), **due)
    if not count:
        raise NoSuchRow(f"no parked message has the error {key}")
    return count


class Takers(NamedTuple):
    """What the workers that answer take."""

    queues: Collection[str]
    local: bool
    """Whether one of them runs what was recorded with `outbox="local"`."""


def read_message(
    database: Database, query: Query, takers: Takers | None = None
) -> Shown | None:
    """Return one message with its arguments and headers; None: there is no such.

    Args:
        database: of its outbox.
        query: has its id.
        takers: what workers take; None: it is not known.
    """
    try:
        [number] = _one(query.get("id", "")).ids or [0]
    except NoSuchRow:
        return None
    found = explain(database, number, takers)
    if found is None:
        return None
    row, reply = found
    [(now,)] = database.run("read_clock", now=None)
    headers = OutboxOverview(database).headers(number)
    facts = {
        "arguments": headers.pop("argsrepr", None),
        "named arguments": headers.pop("kwargsrepr", None),
        **{name: headers[name] for name in sorted(headers)},
    }
    if not database.shows_arguments:
        facts = {"arguments": HIDDEN, "headers": HIDDEN}
    return Shown(
        now_us=now,
        summary=row,
        rows={"messages": [row]},
        extra={
            "verdict": reply.shown,
            "task": row.task,
            "task_id": row.task_id,
            "facts": [
                [name, value if isinstance(value, str) else json.dumps(value)]
                for name, value in facts.items()
                if value not in (None, {}, [])
            ],
        },
    )


def explain(
    database: Database, number: int, takers: Takers | None = None
) -> tuple[MessageRow, Explanation] | None:
    """Return a message, and why it waits or is never delivered; None: it is gone."""
    overview = OutboxOverview(database)
    rows = overview.rows(Which(ids=[number]), limit=1)
    if not rows:
        return None
    lockers = database.column("read_outbox_locker", id=number)
    locks = Overview(database).locks("pecker_outbox", "".join(lockers))
    reply = next(explained(rows[0], overview.relays(), locks, takers))
    return rows[0], replace(reply, facts=[_tries(rows[0])])


def explained(
    row: MessageRow,
    relays: Sequence[RelayRow],
    locks: Sequence[LockingSession] = (),
    takers: Takers | None = None,
) -> Iterator[Explanation]:
    """Yield why a message waits, or is never delivered: the first is the root. Pure."""
    if row.state == "parked":
        why = f"it is parked: {row.last_error or 'by hand'}"
        yield Explanation("parked", why, "it waits for people: retry or drop it")
    if row.state == "later":
        yield Explanation("to_come", "it is not due yet")
    if row.state == "held":
        relayed = row.mode == "relay"
        yield Explanation("held", "it is being delivered" if relayed else "it runs")
    if locks:
        yield Explanation.locked("it is due", locks[0], "pecker_outbox")
    if row.mode == "local":
        if takers is not None and not takers.local:
            yield Explanation(
                "no_worker",
                "it is never run: no worker runs what was recorded as 'local'",
                "start a worker with pecker_worker = {'outbox'}",
            )
        why = "it is due, for a worker with pecker_worker = {'outbox'}"
        yield Explanation("waiting", why)
    if not relays:
        why = "it is never delivered: no relay runs"
        yield Explanation("no_relay", why, "start a scheduler of this app")
    if all(one.broker is not None for one in relays):
        why = f"no relay reaches the broker: {relays[0].broker}"
        yield Explanation("broker_away", why, "see that schedulers reach broker_url")
    queue = row.routing_key
    if takers is not None and not row.exchange and queue not in takers.queues:
        advice = f"start a worker for it: celery -A proj worker -Q {queue}"
        yield Explanation("no_worker", f"no worker takes the queue {queue!r}", advice)
    yield Explanation("waiting", f"it is due, for the queue {row.exchange or queue}")


def _tries(row: MessageRow) -> str:
    """Return what a row keeps of its attempts: how many, and how the last one ended."""
    if row.mode == "relay":
        return "attempts are not counted: relays send it until the broker has it"
    kept = f"; of them the last error is kept: {row.last_error}"
    return f"{plural(row.attempt, 'attempt')} so far{kept if row.last_error else ''}"


def chosen(query: Query, now_us: int) -> Which:
    """Return the rows that filters leave; ids that are none leave nothing."""
    asked = MESSAGES.asked(query)
    task, ids = asked["task"], asked["ids"]
    return Which(
        ids=None if ids is None else [*map(int, IDS.findall(ids))],
        tasks=None if task is None else [task],
        parked=True if query.get("parked") == "1" else None,
        until=until(query, now_us),
        all_rows=True,
        **{name: asked[name] for name in ("queue", "error", "state")},
    )


def _matching(all_: OutboxSummary, which: Which) -> int:
    """Return how many rows are left of a task, parked or not, as far as counted."""
    if which.tasks is None:
        return all_.parked if which.parked else all_.depth + all_.later + all_.parked
    mine = (one for one in all_.tasks if one.task in which.tasks)
    return sum(
        one.parked + (0 if which.parked else one.waiting + one.held + one.later)
        for one in mine
    )


def _one(key: str) -> Which:
    plain = key.isascii() and key.isdigit()
    if not plain or int(key) > LARGEST_ID:
        raise NoSuchRow(GONE)
    return Which(ids=[int(key)])


def _act(
    name: str,
    does: Callable[[Database, Which, str], int],
    says: str,
    states: tuple[str, ...],
    asks: str = "",
) -> Act:
    def call(database: Database, key: str, user: str) -> None:
        if not does(database, _one(key), user):
            raise NoSuchRow(GONE)

    def every(database: Database, query: Query, user: str) -> int:
        [(now,)] = database.run("read_clock", now=None)
        return does(database, chosen(query, now), user)

    return Act(
        name,
        name.capitalize(),
        call,
        says,
        asks=asks,
        undo=bool(asks),
        every=every,
        states=states,
    )


_TO_DELIVER = ("waiting", "held", "later")
ACTS = (
    _act(
        "retry",
        lambda database, which, _: operations.retry(database, which),
        "To be tried again, with all attempts: {what}.",
        ("parked",),
    ),
    _act(
        "park",
        lambda database, which, user: operations.park(
            database, which, f"parked by {user} in Flower"
        ),
        "Parked, and not delivered before a retry: {what}.",
        _TO_DELIVER,
    ),
    _act(
        "drop",
        lambda database, which, _: operations.drop(database, which),
        "Dropped, and never run: {what}.",
        (*_TO_DELIVER, "parked"),
        asks="Rows are deleted, and their tasks will not run.",
    ),
)


# Figures


def _depth(all_: OutboxSummary) -> Card:
    oldest = all_.oldest
    note = "nothing is due" if oldest is None else f"the oldest for {duration(oldest)}"
    about = "about " if all_.more else ""
    return Card(about + count(all_.depth), note, "active" if all_.depth else "success")


def _drain(all_: OutboxSummary) -> Card:
    later = f", {plural(all_.later, 'message')} later" if all_.later else ""
    note = f"{rate(all_.rate)} a second{later}"
    if all_.drained_in is None:
        still = "a task stands still; " if all_.rate else ""
        return Card("never", still + note, "danger")
    return Card(duration(all_.drained_in) if all_.depth else "now", note)


def _away(summary: OutboxSummary) -> list[RelayRow]:
    return [one for one in summary.relays if one.broker is not None]


def _relays(all_: OutboxSummary) -> Card:
    live = count(len(all_.relays))
    if away := _away(all_):
        one = away[0]
        more = f" and {count(len(away) - 1)} more" if len(away) > 1 else ""
        note = f"the broker is away for {one.host} {one.pid}{more}: {one.broker}"
        return Card(live, note, "danger")
    if not all_.relays:
        return Card(live, "no relay runs", "danger")
    return Card(live, "all reach the broker")


FIGURES = (
    Figure("depth", "Due messages", _depth),
    Figure("drain", "Empty in", _drain),
    Figure("parked", "Parked", lambda all_: to_mend(all_.parked)),
    Figure("relays", "Live relays", _relays),
)


# Metrics


def _relay(name: str, text: str, field: str) -> Measure:
    """Return a measure of what living relays did since each of them started."""

    def samples(summary: OutboxSummary) -> Samples:
        counts: dict[str, int] = {}
        for one in summary.relays:
            relay = f"{one.host}:{one.pid}"
            counts[relay] = counts.get(relay, 0) + getattr(one, field)
        yield from (([relay], number) for relay, number in counts.items())

    return Measure(name, text, samples, labels=("relay",), counter=True)


MEASURES = (
    Measure("outbox_depth", "Messages that are due and not delivered or done", "depth"),
    Measure("outbox_later", "Messages that are not due yet", "later"),
    Measure("outbox_parked", "Messages that wait for people", "parked"),
    Measure(
        "outbox_oldest_seconds",
        "For how long the oldest that is due has been due",
        "oldest",
    ),
    Measure("outbox_rate", "Messages sent or done per second, lately", "rate"),
    Measure(
        "outbox_attempts",
        "The most attempts that a recorded task has had",
        lambda all_: max((one.attempt for one in all_.tasks), default=0),
    ),
    Measure("outbox_relays", "Live relays", lambda all_: len(all_.relays)),
    Measure(
        "outbox_relays_away",
        "Relays that cannot reach the broker",
        lambda all_: len(_away(all_)),
    ),
    _relay("outbox_sent", "Messages that a relay sent", "sent"),
    _relay("outbox_retried", "Messages in batches that a relay took over", "retried"),
    _relay("outbox_refused", "Messages that a relay parked", "parked"),
)


# Tables


def _attempts(row: MessageRow) -> int | None:
    return None if row.mode == "relay" else row.attempt  # a relay counts none


TASKS = Table(
    name="tasks",
    title="Messages by task",
    key="task",
    columns=(
        Column("task", "task", "name", chooses="task"),
        Column("waiting", "waiting", "count"),
        Column("held", "held", "count", width="tablet"),
        Column("later", "later", "count", width="tablet"),
        Column("parked", "parked", "count", alert=True),
        Column("oldest", "oldest", "duration"),
        Column("rate", "rate", "rate", width="tablet"),
        Column("attempt", "attempts", "count", width="tablet"),
    ),
    empty="Nothing waits.",
)
MESSAGES = Table(
    name="messages",
    title="Messages",
    key="id",
    columns=(
        Column("state", "state", "state"),
        Column("task", "task", "name", notes=("task_id",)),
        Column("id", "id", link="opens"),
        Column("attempt", "attempts", "count", value=_attempts, width="desk"),
        Column("due_at", "due", "instant", width="tablet"),
        Column("created_at", "recorded", "instant", width="desk"),
        Column("queue", "queue", width="desk", chooses="queue"),
        Column("last_error", "last error", "error", width="tablet"),
    ),
    empty="No such message.",
    states={"waiting": "asked", "held": "done", "later": "idle", "parked": "bad"},
    acts=ACTS,
    nouns=("message", "messages"),
    filters=(
        Filter("parked", "parked only", kind="flag"),
        Filter(
            "error",
            "Search last errors",
            kind="search",
            known=of_rows("messages", "last_error"),
        ),
        Filter(
            "state",
            "in any state",
            kind="choice",
            choices=("waiting", "held", "later"),
        ),
        Filter("task", "Task", known=of_rows("tasks", "task")),
        Filter("queue", "Queue", known=of_rows("messages", "queue")),
        AGE,
        Filter("ids", "Ids"),
    ),
    paged="behind",
)
GROUPS = groups_table(
    "Parked messages by error",
    "tasks",
    Act(
        "retry_these",
        "Retry these",
        lambda database, key, _: retry_group(database, key),
        "To be tried again, with all attempts: {answer:,} messages.",
        asks="Its messages, of whatever task, are delivered or run again, with all"
        " attempts; what they did before they were parked is done again, too.",
    ),
)
OUTBOX = View(
    name="outbox",
    title="Outbox",
    read=read,
    tables=(TASKS, GROUPS, MESSAGES),
    figures=FIGURES,
    measures=MEASURES,
)
MESSAGE = View(
    name="message",
    title="Message",
    read=read_message,
    tables=(replace(MESSAGES, filters=(), paged=""),),
    figures=(),
)
