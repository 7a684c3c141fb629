"""The figures of all entries, and of each where they are few.

The page of the entries is drawn by hand: each has a strip of its slots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from celery_pecker.kernel.lease import SECOND
from celery_pecker.schedules.overview import EntryRow, Totals
from celery_pecker.surfaces.views.model import Measure, Samples, each


@dataclass(frozen=True, slots=True)
class Summary:
    """All entries, and those that have series of their own."""

    totals: Totals
    rows: Sequence[EntryRow]


def _runs(summary: Summary) -> Samples:
    """Yield what became of runs: of each entry, or of all where they are too many.

    Each series is there from the start, with 0: a rate needs two values, and an alert
    that waits for the first overrun would not see it.
    """
    counted = [(row.name, row.task, row.outcomes.counts) for row in summary.rows]
    for entry, name, counts in counted or [("", "", summary.totals.counts)]:
        yield from (((entry, name, outcome), n) for outcome, n in counts.items())


def _gauge(name: str, text: str, total: str) -> Measure:
    return Measure(name, text, f"totals.{total}")


def _each(
    name: str, text: str, value: str | Callable[[EntryRow, Summary], float | None]
) -> Measure:
    counter = name.endswith("missed")
    samples = each("rows", ["name", "task"], value)
    return Measure(name, text, samples, ("entry", "name"), counter)


MEASURES = (
    _gauge("entries", "Entries in the tables", "entries"),
    _gauge("entries_declared", "Entries of living replicas", "declared"),
    _gauge("entries_unclaimed", "Entries that no live replica claims", "unclaimed"),
    _gauge("entries_undeclared", "Entries that no replica declares", "undeclared"),
    _gauge("entries_paused", "Entries that are paused", "paused"),
    _gauge("entries_overdue", "Entries whose slot was not claimed in time", "overdue"),
    _gauge(
        "entries_failing",
        "Entries that are not sent, or whose runs end badly",
        "failing",
    ),
    _gauge(
        "entries_undelivered",
        "Entries whose last slot was claimed and not sent",
        "undelivered",
    ),
    _gauge(
        "entries_unreported",
        "Entries of whose messages no worker reports though they should have begun",
        "unreported",
    ),
    _gauge("slots_pending", "Slots claimed and not confirmed", "pending"),
    _gauge("slots_stuck", "Slots claimed long ago and not confirmed", "stuck"),
    _gauge("runs_asked", "Runs asked for by hand, not taken yet", "asked"),
    _gauge("replicas", "Live schedulers", "replicas"),
    _gauge(
        "stored_unreadable",
        "Stored schedules that some scheduler cannot read",
        "unreadable",
    ),
    Measure(
        "overdue_seconds",
        "For how long the most overdue slot has been due",
        lambda all_: all_.totals.worst_us / SECOND,
    ),
    Measure(
        "slots_missed",
        "Slots that passed without a message or run",
        "totals.missed",
        counter=True,
    ),
    _each(
        "last_slot_age_seconds",
        "Since the instant of the last slot that was won",
        lambda row, all_: max(all_.totals.now_us - row.last_us, 0) / SECOND,
    ),
    _each(
        "slot_late_seconds",
        "How late the last message or run was",
        lambda row, _: None if row.late_us is None else row.late_us / SECOND,
    ),
    _each(
        "entry_slots_missed",
        "Slots of the entry that passed without a message or run",
        "missed",
    ),
    _each(
        "entry_failing",
        "Whether the entry is not sent, or its runs end badly",
        "outcomes.failing",
    ),
    _each(
        "entry_unreported",
        "Whether no worker reports of its messages though they should have begun",
        lambda row, _: row.outcomes.unreported_us is not None,
    ),
    Measure(
        "runs",
        "What became of slots and their runs",
        _runs,
        labels=("entry", "name", "outcome"),
        counter=True,
    ),
)
