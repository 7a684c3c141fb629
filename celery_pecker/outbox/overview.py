"""Read what an outbox holds, for people, metrics and probes."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from celery_pecker.kernel.database import Tables
from celery_pecker.outbox.model import mode_name
from celery_pecker.outbox.operations import Which

R = TypeVar("R")
INDEXES = {
    "ready": "pecker_outbox_ready",
    "timed": "pecker_outbox_later",
    "runs": "pecker_outbox_runs",
    "parked": "pecker_outbox_parked",
}
"""Which index each kind of rows was counted by."""


class Counted(NamedTuple):
    """Rows of one task that were counted by one index."""

    kind: str
    """ready (due when it was recorded), timed, runs or parked."""
    task: str
    waiting: int
    held: int
    later: int
    parked: int
    attempt: int
    oldest: float | None
    full: bool
    """There may be more of this kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """How many rows there are."""

    depth: int
    """Messages that are due: waiting and held."""
    later: int
    parked: int
    counted: int
    """Messages that were counted, from the oldest on."""
    more: bool
    """Whether there are messages that were not counted: `depth`, `later` and `parked`
    are reckoned from PostgreSQL's statistics then, and tasks have at least so many."""


def indexes_to_ask(rows: Iterable[Counted]) -> set[str]:
    """Return the indexes that lead to more rows than were counted."""
    return {INDEXES[one.kind] for one in rows if one.full}


def totals(rows: Iterable[Counted], estimates: Mapping[str, int]) -> Totals:
    """Return the totals, reckoned where not all was counted. Pure.

    A table of a year's queue cannot be counted for each page. The oldest rows of each
    index are counted; where there are more, PostgreSQL's statistics say about how many.
    Each index was walked in the order in which its rows are due. So those that were not
    counted are due later if one that was counted is, and else they count as due.

    Args:
        rows: what was counted.
        estimates: about how many rows each index that has more leads to.

    """
    rows = [*rows]
    depth = sum(one.waiting + one.held for one in rows)
    later, parked = sum(one.later for one in rows), sum(one.parked for one in rows)
    counted = depth + later + parked
    asked = indexes_to_ask(rows)
    for index in asked:
        mine = [one for one in rows if INDEXES[one.kind] == index]
        seen = sum(one.waiting + one.held + one.later + one.parked for one in mine)
        beyond = max(estimates.get(index, 0) - seen, 0)
        full = [one for one in mine if one.full]
        if any(one.parked for one in full):
            parked += beyond
        elif all(one.later for one in full):
            later += beyond
        else:
            depth += beyond
    return Totals(
        depth=depth, later=later, parked=parked, counted=counted, more=bool(asked)
    )


MOST_COUNTED = 5_000
"""Rows that are counted by each index. How many a deeper one has is reckoned: a million
rows took 1.4 s to count."""
RATED_SECONDS = 60.0
"""For how long rates look back at most."""
MOST_TASKS = 1_000
"""Tasks of modes 1 and 2 that are counted."""
FIRST = (2**31, 0)
"""Attempts and id before those of any row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """What waits of one task."""

    task: str
    waiting: int
    """Due and not held: in the table, or as a message that has not started a run."""
    held: int
    """In a relay's batch or in a run's hands."""
    later: int
    """Not due yet."""
    parked: int
    attempt: int
    """The most that one of them has had."""
    oldest: float | None
    """Seconds for which the oldest that is due has been due; of what was sent several
    times since its last run, at least so many."""
    rate: float
    """Sent or done per second, lately."""


@dataclass(frozen=True, slots=True)
class RelayRow:
    """Describe a live relay."""

    host: str
    pid: int
    sent: int
    retried: int
    """Messages in batches that it took over."""
    parked: int
    broker: str | None
    """Why it cannot send; None: it can."""
    rates: dict[str, float]
    seen: float
    """Seconds ago."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxSummary(Totals):
    """What an outbox holds."""

    oldest: float | None
    """Seconds."""
    rate: float
    """Sent or done per second, lately, by all."""
    drained_in: float | None
    """Seconds until nothing is due, if nothing comes: at the rate of all, or of the
    task that takes longest at its own. None: never."""
    tasks: list[TaskRow]
    relays: list[RelayRow]


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One row, without its message."""

    id: int
    task: str
    task_id: str
    mode: str
    attempt: int
    state: str
    """waiting, held, later or parked."""
    due_at: datetime
    created_at: datetime
    parked_at: datetime | None
    exchange: str
    routing_key: str
    size: int
    dedupe_key: str | None
    last_error: str | None

    @property
    def place(self) -> tuple[int, int]:
        """Return where it stands among all rows: `rows` goes on behind it."""
        return self.attempt, self.id

    @property
    def queue(self) -> str:
        """Return the queue, or the exchange, that it is for."""
        return self.exchange or self.routing_key

    @property
    def opens(self) -> str:
        """Return where Flower shows it, behind the address of Flower."""
        return f"outbox/message?id={self.id}"


class OutboxOverview:
    """A look at one outbox."""

    def __init__(self, database: Tables) -> None:
        self._database = database

    def summary(self) -> OutboxSummary:
        """Count what waits, by task; those with the most first."""
        database = self._database
        counted = database.read(
            Counted, "count_outbox", most=MOST_COUNTED, tasks=MOST_TASKS
        )
        estimates: dict[str, int] = {}
        if indexes := indexes_to_ask(counted):
            names = sorted(indexes)
            rows = database.run(
                "estimate_outbox", schema=database.schema, indexes=names
            )
            estimates = {str(name): int(count) for name, count in rows}
        relays = self.relays()
        rates = {
            str(task): float(rate) for task, rate in database.run("read_outbox_rate")
        }
        for relay in relays:
            for task, rate in relay.rates.items():
                rates[task] = rates.get(task, 0.0) + rate
        tasks, of_all = by_task(counted, rates), totals(counted, estimates)
        rate = sum(rates.values())
        return OutboxSummary(
            **asdict(of_all),
            oldest=_most(one.oldest for one in tasks),
            rate=rate,
            drained_in=drained_in(tasks, of_all.depth, rate),
            tasks=tasks,
            relays=[*relays],
        )

    def relays(self) -> Sequence[RelayRow]:
        """Return the relays that live."""
        return self._database.read(_relay, "read_outbox_relays")

    def headers(self, number: int) -> dict[str, Any]:
        """Return the headers of a message; none of one that is gone."""
        rows = self._database.run("read_outbox_headers", id=number)
        found: dict[str, Any] = json.loads(rows[0][0]) if rows else {}
        return found

    def rows(
        self, which: Which, *, limit: int, behind: tuple[int, int] | None = None
    ) -> Sequence[MessageRow]:
        """Return rows, those with the most attempts first, then the oldest.

        Args:
            which: the rows.
            limit: so many at most.
            behind: those behind the row with these attempts and this id.
        """
        tries, above = FIRST if behind is None else behind
        asked = {"most": limit, "tries": tries, "above": above, **which.params}
        return self._database.read(_message, "show_outbox", **asked)


def _relay(rates: str, **columns: Any) -> RelayRow:
    return RelayRow(rates=json.loads(rates), **columns)


def _message(mode: int, **columns: Any) -> MessageRow:
    return MessageRow(mode=mode_name(mode), **columns)


def by_task(counted: Sequence[Counted], rates: Mapping[str, float]) -> list[TaskRow]:
    """Return what was counted of each task; those that wait most first."""
    parts: dict[str, list[Counted]] = {}
    for one in counted:
        parts.setdefault(one.task, []).append(one)
    tasks = [
        TaskRow(
            task=task,
            waiting=sum(one.waiting for one in mine),
            held=sum(one.held for one in mine),
            later=sum(one.later for one in mine),
            parked=sum(one.parked for one in mine),
            attempt=max(one.attempt for one in mine),
            oldest=_most(one.oldest for one in mine),
            rate=rates.get(task, 0.0),
        )
        for task, mine in parts.items()
    ]
    return sorted(tasks, key=lambda one: (-one.waiting, -one.parked, one.task))


def drained_in(tasks: Iterable[TaskRow], depth: int, rate: float) -> float | None:
    """Return the seconds until nothing is due, if nothing comes; None: never.

    A task that is sent fast hides one that stands still. So each task counts by its own
    rate, and one of which some have been due for longer than rates look back, and none
    was sent, done or is in hand, is never done.
    """
    if not depth:
        return 0.0
    if rate <= 0:
        return None
    longest = depth / rate
    for one in tasks:
        if one.waiting and one.rate > 0:
            longest = max(longest, (one.waiting + one.held) / one.rate)
        elif one.waiting and not one.held and (one.oldest or 0.0) > RATED_SECONDS:
            return None
    return longest


def _most(values: Iterable[float | None]) -> float | None:
    return max((one for one in values if one is not None), default=None)
