"""The view of schedules: entries with their slots, and the figures of all of them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from celery_pecker.kernel.lease import SECOND
from celery_pecker.schedules.overview import EntryRow, Totals
from celery_pecker.schedules.overview.reader import STATES
from celery_pecker.surfaces.views.model import (
    Act,
    Card,
    Column,
    Each,
    Figure,
    Filter,
    Measure,
    Query,
    Samples,
    Table,
    View,
    of_rows,
)
from celery_pecker.surfaces.views.phrases import count, plural, span


@dataclass(frozen=True, slots=True)
class SchedulesSummary:
    """All entries, and those that have series of their own."""

    totals: Totals
    rows: Sequence[EntryRow] = ()


# Figures


def _entries(all_: SchedulesSummary) -> Card:
    totals, named = all_.totals, ("local", "paused", "new", "undeclared")
    parts = [f"{count(getattr(totals, name))} {name}" for name in named]
    note = " · ".join(one for one in parts if one[0] != "0") or "all declared"
    return Card(count(totals.entries), note)


def _overdue(all_: SchedulesSummary) -> Card:
    totals, note = all_.totals, "every due slot was won"
    if totals.overdue:
        note = f"the longest {span(totals.worst_us)}: {totals.worst}"
    elif totals.unclaimed:
        note = f"no scheduler claims {totals.unclaimed:,}"
    bad = totals.overdue or totals.unclaimed
    return Card(count(totals.overdue), note, "danger" if bad else "success")


def _failing(all_: SchedulesSummary) -> Card:
    totals, note = all_.totals, "no run ended badly lately"
    if totals.undelivered:
        note = f"{plural(totals.undelivered, 'entry', 'entries')} not sent"
    elif totals.unreported:
        note = f"no worker reports of {totals.unreported:,}"
    elif totals.failing:
        note = "their last runs ended badly"
    bad = totals.failing + totals.unreported
    return Card(count(bad), note, "danger" if bad else "success")


def _missed(all_: SchedulesSummary) -> Card:
    if not all_.totals.missed:
        return Card("0", "none yet")
    return Card(count(all_.totals.missed), "since they were first seen", "warning")


def _replicas(all_: SchedulesSummary) -> Card:
    totals = all_.totals
    if not totals.replicas:
        return Card("0", "no slot is claimed", "danger")
    waiting = totals.pending + totals.asked
    way = f"{plural(waiting, 'slot')} on the way"
    note = way if waiting else "any of them is enough"
    late = totals.overdue or totals.unclaimed
    return Card(count(totals.replicas), note, "warning" if late else "success")


FIGURES = (
    Figure("entries", "Entries", _entries),
    Figure("overdue", "Overdue", _overdue, "state"),
    Figure("failing", "Failing", _failing, "state"),
    Figure("missed", "Missed slots", _missed),
    Figure("replicas", "Live schedulers", _replicas),
)


# Metrics


def _runs(summary: SchedulesSummary) -> Samples:
    """Yield what became of runs: of each entry, or of all where they are too many.

    Each series is there from the start, with 0: a rate needs two values, and an alert
    that waits for the first overrun would not see it.
    """
    counted = [(row.name, row.task, row.outcomes.counts) for row in summary.rows]
    for entry, name, counts in counted or [("", "", summary.totals.counts)]:
        yield from (((entry, name, outcome), n) for outcome, n in counts.items())


GAUGES = {
    "entries": "Entries in the tables",
    "entries_declared": "Entries of living replicas",
    "entries_unclaimed": "Entries that no live replica claims",
    "entries_undeclared": "Entries that no replica declares",
    "entries_paused": "Entries that are paused",
    "entries_overdue": "Entries whose slot was not claimed in time",
    "entries_failing": "Entries that are not sent, or whose runs end badly",
    "entries_undelivered": "Entries whose last slot was claimed and not sent",
    "entries_unreported": "Entries of whose messages no worker reports though they"
    " should have begun",
    "slots_pending": "Slots claimed and not confirmed",
    "slots_stuck": "Slots claimed long ago and not confirmed",
    "runs_asked": "Runs asked for by hand, not taken yet",
    "replicas": "Live schedulers",
    "stored_unreadable": "Stored schedules that some scheduler cannot read",
}
"""Of the totals, each of which has the last word of its metric's name."""
_each = Each("rows", {"entry": "name", "name": "task"})
MEASURES = (
    *(
        Measure(name, text, f"totals.{name.rpartition('_')[2]}")
        for name, text in GAUGES.items()
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
        counter=True,
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


# Acts


class Edits(Protocol):
    """What edits entries in the name of a user."""

    def pause(self, name: str, *, by: str) -> object:
        """Let slots pass."""

    def resume(self, name: str, *, by: str) -> object:
        """Let slots run again."""

    def run(self, name: str, *, by: str) -> object:
        """Ask for a run now."""

    def matching(self, query: Query, *, paused: bool) -> Sequence[str]:
        """Return the names of all entries that filters leave."""


def _act(name: str, label: str, says: str) -> Act:
    def call(edits: Edits, key: str, user: str) -> None:
        getattr(edits, name)(key, by=user)

    def every(edits: Edits, query: Query, user: str) -> int:
        names = edits.matching(query, paused=name == "resume")
        for one in names:
            call(edits, one, user)
        return len(names)

    return Act(name, label, call, says, every=None if name == "run" else every)


RUN = _act("run", "Run now", "Asked for a run of {what}.")
PAUSE = _act("pause", "Pause", "Paused {what}: slots pass without a run.")
RESUME = _act("resume", "Resume", "Resumed {what}, with the next slot.")


# Tables

ENTRIES = Table(
    name="entries",
    title="Entries",
    key="name",
    columns=(
        Column("state", "state", "state", order="state"),
        Column("name", "entry", "name", notes=("task",), order="name"),
        Column("schedule", "schedule", width="desk"),
        Column("last_us", "last slot", "instant", width="desk", order="last"),
        Column("next_us", "next slot", "instant"),
        Column("late_us", "lateness", "text", width="tablet", order="late"),
        Column("host", "holder", width="desk"),
        Column("epoch", "epoch", width="wide"),
        Column("missed", "missed", "count", width="tablet", alert=True, order="missed"),
    ),
    empty="No entry yet. The first scheduler that starts with pecker_dsn set to this"
    " database enters those of its app.",
    states={
        **dict.fromkeys(("overdue", "unclaimed", "failing", "unreported"), "bad"),
        "undeclared": "refused",
        "paused": "idle",
        "new": "asked",
        "ok": "done",
    },
    acts=(RUN, PAUSE, RESUME),
    means={
        "ok": "Its next slot is not due yet",
        "overdue": "A slot is due and no replica has claimed it",
        "unclaimed": "No scheduler lives that would claim its slots",
        "failing": "Its last slot was not sent, its last run ended badly, or one did"
        " within a minute",
        "unreported": "What was sent should have begun, and no worker reports of it: it"
        " waits in its queue, or its worker died, or runs without pecker_dsn",
        "paused": "Its slots pass without a run until it is resumed",
        "undeclared": "No living scheduler's code declares it; it is forgotten after a"
        " day",
        "unreadable": "Its stored row cannot be read: it does not run until the row is"
        " repaired",
        "done": "It was to run once, and that instant is over; it is forgotten after a"
        " day",
        "removed": "It was removed; it is forgotten after a day",
        "new": "It has had no slot yet",
    },
    order="state",
    paged="numbers",
    nouns=("entry", "entries"),
    filters=(
        Filter("search", "Search names and tasks", kind="search"),
        Filter("state", "in any state", kind="choice", choices=STATES),
        Filter(
            "task",
            "Task",
            known=of_rows("entries", "task"),
        ),
    ),
)
STORED = Table(
    name="stored",
    title="Stored schedules",
    key="name",
    nouns=("schedule", "schedules"),
    columns=(
        Column("name", "name", "name", notes=("task",)),
        Column(
            "words", "when", value=lambda row: row.words or json.dumps(row.schedule)
        ),
        Column("next_due", "next", "instant"),
        Column("state", "state", value=lambda row: row.problem or row.state),
        Column("version", "version", "count"),
        Column("changed_by", "changed by"),
    ),
    empty="No schedule is stored.",
)
CHANGES = Table(
    name="changes",
    title="Changes",
    key="change.id",
    columns=(
        Column("change.changed_at", "at", "instant"),
        Column("change.change", "change"),
        Column("change.version", "version", "count"),
        Column("change.changed_by", "by"),
        Column("what", "what"),
    ),
    empty="No change of this name is kept.",
)
ENTRY_TABLE = replace(
    ENTRIES, name="entry", filters=(), paged="", order="", by_hand=True
)
_BAD = ("failed_to_send", "lost", "failed", "overrun")
_REFUSED = ("late", "overtaken", "repeated", "unknown")
SLOTS = Table(
    name="slots",
    title="Last slots",
    key="task",
    columns=(
        Column("slot.due_us", "slot", "instant"),
        Column("slot.state", "what became of it", "state"),
        Column(
            "slot.late_us",
            "late",
            "duration",
            value=lambda row: (
                None if row.slot.late_us is None else row.slot.late_us / SECOND
            ),
        ),
        Column(
            "slot.host",
            "holder",
            value=lambda row: row.slot.host or str(row.slot.holder)[:8],
        ),
        Column("slot.epoch", "epoch", value=lambda row: str(row.slot.epoch)),
    ),
    empty="No slot was reported yet.",
    state="slot.state",
    states={
        "published": "sent",
        "started": "running",
        "running": "running",
        "succeeded": "done",
        "asked": "asked",
        **dict.fromkeys(("missed", "misfired"), "missed"),
        **dict.fromkeys(("paused", "held"), "idle"),
        **dict.fromkeys(_BAD, "bad"),
        **{f"refused_{why}": "refused" for why in _REFUSED},
    },
    means={
        "published": "sent",
        "missed": "missed: it was too late to send it",
        "misfired": "skipped: found when its grace or deadline was over",
        "failed_to_send": "could not be sent",
        "paused": "passed: the entry was paused",
        "held": "held back by a gate",
        "running": "runs",
        "lost": "lost: its process ended without a word",
        "overrun": "ran past its deadline",
        "refused_late": "refused: too late to start",
        "refused_overtaken": "refused: a newer run had overtaken it",
        "refused_repeated": "refused: it had started before",
        "refused_unknown": "refused: the database could not be asked",
        "asked": "asked for, not taken yet",
    },
    by_hand=True,
)
SCHEDULES = View(
    name="schedules",
    title="Schedules",
    read=lambda *_: None,  # its page knows more than our tables
    tables=(ENTRIES,),
    figures=FIGURES,
    measures=MEASURES,
)
ENTRY = View(
    name="schedule",
    title="Schedule",
    read=lambda *_: None,
    tables=(ENTRY_TABLE, SLOTS, CHANGES),
    figures=(),
)
EDIT = View(
    name="schedule-edit",
    title="Edit schedule",
    read=lambda *_: None,
    tables=(CHANGES,),
    figures=(),
)


# Slots and changes


class ListedSlot(NamedTuple):
    """A slot with the id of its task."""

    slot: Any
    task: str


NOTHING: tuple[object, ...] = ("", None, False, [], {})
PARTS = (
    *("task", "schedule", "start", "end", "once", "args", "kwargs", "options"),
    *("policies", "run"),
)
"""Of a definition, in the order in which people look for them."""


class Difference(NamedTuple):
    """A field of a definition, before and after a change; "" is nothing."""

    field: str
    before: str
    after: str


class ComparedChange(NamedTuple):
    """A change of a stored schedule with the fields that it made different."""

    change: Any
    differences: Sequence[Difference]

    @property
    def what(self) -> str:
        """The other name of a rename, or what differs, on one line."""
        if self.change.other_name is not None:
            where = "from" if self.change.definition else "to"
            return f"{where} {json.dumps(self.change.other_name, ensure_ascii=False)}"
        return "; ".join(
            f"{name}: {before} → {after}" if before else f"{name}: {after}"
            for name, before, after in self.differences
        )


def compared(changes: Sequence[Any]) -> list[ComparedChange]:
    """Return changes, newest first, each with what it made different. Pure."""
    found: list[ComparedChange] = []
    before: dict[str, object] = {}
    for change in reversed(changes):
        after = before
        if change.definition is not None:
            after = {part: change.definition.get(part) for part in PARTS}
        found.append(ComparedChange(change, differences(before, after)))
        before = after
    return found[::-1]


def differences(
    before: Mapping[str, object], after: Mapping[str, object]
) -> list[Difference]:
    """Return the fields that differ, in the order of the second."""
    pairs = [(key, _text(before.get(key)), _text(after.get(key))) for key in after]
    return [Difference(*one) for one in pairs if one[1] != one[2]]


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return "" if value in NOTHING else json.dumps(value, ensure_ascii=False)
