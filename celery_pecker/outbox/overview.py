"""Read what an outbox holds, for people, metrics and probes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from celery_pecker.kernel.database import Database
from celery_pecker.outbox.model import Mode
from celery_pecker.outbox.operations import Which

MOST_COUNTED = 1_000_000
"""Rows that are counted; a deeper table is told as at least so deep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """What waits of one task."""

    task: str
    waiting: int
    """Due, and in nobody's hands."""
    held: int
    """In a relay's batch or in a run's hands."""
    later: int
    """Not due yet."""
    parked: int
    attempt: int
    """The most that one of them has had."""
    oldest: float | None
    """Seconds for which the oldest that is due has been due."""
    rate: float
    """Sent or done per second, lately."""


@dataclass(frozen=True, slots=True)
class RelayRow:
    """A relay that lives."""

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
class Summary:
    """What an outbox holds."""

    depth: int
    """Messages that are due: waiting and held."""
    later: int
    parked: int
    oldest: float | None
    """Seconds."""
    rate: float
    """Sent or done per second, lately, by all."""
    drained_in: float | None
    """Seconds until nothing is due at this rate, if nothing comes; None: never."""
    more: bool
    """Whether there are rows that were not counted."""
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


class Overview:
    """A look at one outbox."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def summary(self) -> Summary:
        """Count what waits, by task; those with the most first."""
        counts = self._database.run("count_outbox", now=None, most=MOST_COUNTED)
        relays = [
            RelayRow(*[*row[:6], json.loads(row[6]), row[7]])
            for row in self._database.run("read_outbox_relays", now=None)
        ]
        rates = dict(self._database.run("read_outbox_rate", now=None))
        for relay in relays:
            for task, rate in relay.rates.items():
                rates[task] = float(rates.get(task, 0.0)) + rate
        return summed(
            [
                TaskRow(
                    task=row[0],
                    waiting=row[1],
                    held=row[2],
                    later=row[3],
                    parked=row[4],
                    attempt=row[5],
                    oldest=row[6],
                    rate=float(rates.get(row[0], 0.0)),
                )
                for row in counts
            ],
            relays,
            rate=sum(map(float, rates.values())),
        )

    def rows(self, which: Which, *, limit: int) -> list[MessageRow]:
        """Return rows, those with the most attempts first."""
        found = self._database.run("show_outbox", now=None, most=limit, **which.params)
        return [
            MessageRow(*[*row[:3], Mode(row[3]).name.lower(), *row[4:]])
            for row in found
        ]

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

    def abandon(self) -> None:
        """Give up the connection in a fork of its owner."""
        self._database.abandon()


def summed(
    tasks: Sequence[TaskRow], relays: Sequence[RelayRow], *, rate: float
) -> Summary:
    """Return the summary of counts by task."""
    depth = sum(one.waiting + one.held for one in tasks)
    later, parked = sum(one.later for one in tasks), sum(one.parked for one in tasks)
    ages = [one.oldest for one in tasks if one.oldest is not None]
    drained_in = 0.0 if not depth else depth / rate if rate > 0 else None
    return Summary(
        depth=depth,
        later=later,
        parked=parked,
        oldest=max(ages, default=None),
        rate=rate,
        drained_in=drained_in,
        more=depth + later + parked >= MOST_COUNTED,
        tasks=[*tasks],
        relays=[*relays],
    )
