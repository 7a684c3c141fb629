"""Where the slots of an entry count from after an edit. Pure.

Slots before the edit are never due by the new schedule. A slot that was due by the old
one and that was not claimed does not vanish: it runs once more, by the new one.
"""

from dataclasses import dataclass

from celery_pecker.schedules.engine import bounds, misfire
from celery_pecker.schedules.engine.bounds import latest
from celery_pecker.schedules.engine.model import Entry

RECENT_US = 60_000_000
"""How far back a run is asked for at most. Schedulers give it up five minutes after its
instant, so that a slot of hours ago is asked for as of a minute ago."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hot:
    """The row of an entry, locked, and the database's time."""

    executed_us: int
    now_us: int
    paused: bool


@dataclass(frozen=True, slots=True)
class Anchor:
    """What an edit writes to the row."""

    executed_us: int | None = None
    """None: it stays."""
    asked_us: tuple[int, ...] = ()
    """Instants of runs that are asked for, for slots that were due."""


def first(hot: Hot) -> Anchor:
    """Return the anchor of a name that is new, or that returns.

    Its first slot is one period later, and nothing that ran before runs again.
    """
    return Anchor(max(hot.executed_us, hot.now_us))


def changed(old: Entry | None, new: Entry, hot: Hot) -> Anchor:
    """Return the anchor of an entry whose schedule changed.

    ``old`` is None where it could not be read: then nothing ran, and nothing was due.
    A grid keeps its phase.
    """
    due = [] if old is None or hot.paused else due_slots(old, hot)
    period_us = period_of(new)
    if period_us is None:
        return Anchor(max(hot.executed_us, hot.now_us), _asked(due, hot.now_us))
    if len(due) == 1:
        # Exactly one slot is due on the new grid. A run that is asked for would need a
        # gap between two slots, which a timeout as long as the period leaves none of.
        slot_us = latest(due[0], period_us, hot.now_us)
        return Anchor(slot_us - period_us)
    executed_us = hot.executed_us
    if executed_us + period_us < hot.now_us or due:
        executed_us = latest(executed_us, period_us, hot.now_us)
    return Anchor(executed_us, _asked(due, hot.now_us))


def renamed(old: Entry, new: Entry, hot: Hot, taken_us: int) -> Anchor:
    """Return the anchor of an entry that has another name from here on.

    Its slots stay where they are, those that are due too. Unless they go by the name
    (a jitter, a splay), or lie before the last slot that the new name had
    (``taken_us``), as which they would pass: then what is due is asked for.
    """
    first_us = new.next(hot.executed_us, hot.now_us)
    same = first_us == old.next(hot.executed_us, hot.now_us)
    if same and first_us > taken_us:
        return Anchor(hot.executed_us)
    due = [] if hot.paused else due_slots(old, hot)
    period_us = period_of(new)
    executed_us = max(hot.executed_us, hot.now_us, taken_us)
    if period_us is not None:
        executed_us = latest(hot.executed_us, period_us, executed_us)
    return Anchor(executed_us, _asked(due, hot.now_us, taken_us))


def period_of(entry: Entry) -> int | None:
    """Return the period of a grid that counts from the row, whether it ends or not."""
    if isinstance(entry.recurrence, bounds.Bounded):
        inner = entry.recurrence.inner
        if isinstance(inner, bounds.Grid) and inner.start_us is None:
            return inner.period_us
    return entry.period_us


def due_slots(entry: Entry, hot: Hot) -> list[int]:
    """Return the slots that are due and still run, oldest first, as a claim would."""
    period_us, now_us = entry.period_us, hot.now_us
    after = bounds.following(entry, hot.executed_us, now_us)
    first_us = after(hot.executed_us)
    if first_us > now_us:
        return []
    depth = entry.policy.depth
    if period_us is not None:
        newest_us = latest(hot.executed_us, period_us, now_us)
        slot_us = max(first_us, newest_us - (depth - 1) * period_us)
    else:
        slot_us, _ = misfire.choose(after, first_us, now_us, depth)
    slots: list[int] = []
    while slot_us <= now_us and len(slots) < depth:
        if misfire.runs(entry.policy, slot_us, now_us):
            slots.append(slot_us)
        slot_us = after(slot_us)
    return slots


def _asked(due: list[int], now_us: int, taken_us: int = 0) -> tuple[int, ...]:
    """Return an instant for each slot, in order, no two of them the same."""
    slots: list[int] = []
    for slot_us in due:
        least_us = slots[-1] + 1 if slots else max(now_us - RECENT_US, taken_us + 1)
        slots.append(max(slot_us, least_us))
    return tuple(slots)
