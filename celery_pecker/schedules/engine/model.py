"""The nouns: an entry that recurs, its policy, a slot, a win.

Instants are whole microseconds since 1970, UTC (``_us``).
"""

import uuid
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha1
from typing import Any, Protocol

NEVER_US = 221_845_392_000_000_000
"""The next slot of a schedule that has none left: the year 9000, before 9999, as times
of it are shown in zones east of Greenwich."""
NAMESPACE = uuid.UUID("5c0ff3ab-9a1d-5d5e-8f0b-7e6a3c1d2b49")
"""Of the task ids of slots. It and the form below never change (I5)."""


class Delivery(StrEnum):
    """What is promised of a slot that was claimed."""

    AT_MOST_ONCE = "at_most_once"
    """One write. A process that dies between claim and publish loses the slot."""
    AT_LEAST_ONCE = "at_least_once"
    """Claim, publish, confirm. A slot claimed and not confirmed is published again,
    with the same task id, by whichever replica comes first."""


class Misfire(StrEnum):
    """What becomes of slots that passed while no replica ran."""

    SKIP = "skip"
    """Nothing: the next slot runs on time."""
    COALESCE = "coalesce"
    """The latest of them runs, once."""
    CATCH_UP = "catch_up"
    """The last few of them run, oldest first, up to a bound."""


class RunMode(StrEnum):
    """Where a claimed slot is run."""

    DISPATCH = "dispatch"
    """Published to the broker: any worker takes it."""
    LOCAL = "local"
    """In the worker that won it, in a thread of its own: no broker is involved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What an entry asks beyond plain beat. Durations in microseconds."""

    delivery: Delivery
    misfire: Misfire = Misfire.COALESCE
    timeout_us: int | None = None
    """A run may not start later than this after its slot; None as in beat: ever."""
    grace_us: int | None = None
    """A slot found later than this is not run; None: however late."""
    depth: int = 1
    """How many missed slots are caught up at most."""
    run: RunMode = RunMode.DISPATCH


class Recurrence(Protocol):
    """Instants that are no plain grid: crontab, solar, users' own schedules."""

    def next(self, last_us: int, now_us: int) -> int:
        """Return the first slot after ``last_us``; it may lie in the past."""

    @property
    def is_polled(self) -> bool:
        """Whether it can only be asked "is it due now?" (no instants of its own)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A declared entry: either a grid (``period_us``) or a ``recurrence``."""

    name: str
    task: str
    described: str
    policy: Policy
    period_us: int | None = None
    recurrence: Recurrence | None = None
    words: str = ""
    """The schedule, for people."""
    countdown_us: int | None = None
    """Of its options, if code declares them: how long its messages wait."""
    version: int | None = None
    """Of a stored schedule, as it was read; None: code declares the entry."""
    edit: int = 0
    """The transaction in which a stored schedule was last edited."""

    def next(self, last_us: int, now_us: int) -> int:
        """Return the first slot after the last; NEVER_US: there is none."""
        if self.recurrence is not None:
            return self.recurrence.next(last_us, now_us)
        return last_us + (self.period_us or NEVER_US)

    def after(self, last_us: int, now_us: int) -> int | None:
        """Return the first slot after the last; None: there is none, or none is known.

        Of a schedule that can only be asked whether it is due now none is known.
        """
        if self.recurrence is not None and self.recurrence.is_polled:
            return None
        due_us = self.next(last_us, now_us)
        return due_us if due_us < NEVER_US else None


@dataclass(slots=True, kw_only=True)
class Slot:
    """One named instant of one entry, won under an epoch.

    It is never changed, yet not frozen: a frozen one takes 2 us longer to make,
    and a thousand are made between a claim and its messages. So with Win and Dispatch.
    """

    entry: Entry
    due_us: int
    era: int
    epoch: int
    until_us: int
    """When it is too late to publish it at all: trust or deadline is over."""
    turn_us: int
    """When it is not tried again any more: the next slot's turn has come."""
    asked: bool = False
    """It was requested: it lies beside the grid."""
    ends_us: int | None = None
    """The deadline, if it is not the slot plus the timeout: of a run that was asked
    for, and of one whose next slot may come before."""

    @property
    def kept(self) -> bool:
        """Whether a row stands for it until it is confirmed."""
        return self.asked or self.entry.policy.delivery is Delivery.AT_LEAST_ONCE

    @property
    def deadline_us(self) -> int | None:
        """When its run must have ended, if the entry has a timeout."""
        if self.asked or self.ends_us is not None:
            return self.ends_us
        timeout_us = self.entry.policy.timeout_us
        return None if timeout_us is None else self.due_us + timeout_us


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """One entry in a claim; ``instant_us`` and ``seen_us`` where it is no grid."""

    entry: Entry
    ahead_us: int
    instant_us: int | None = None
    seen_us: int | None = None
    passed: int = 0


@dataclass(slots=True)
class ClaimedSlot:
    """A slot that a claim took."""

    nth: int
    due_us: int
    epoch: int
    era: int
    passed: int
    paused: bool
    """The entry's slots pass without a run."""


@dataclass(frozen=True, slots=True)
class Row:
    """What the table says of an entry."""

    executed_us: int
    epoch: int
    era: int
    holder: uuid.UUID | None
    paused: bool = False
    version: int | None = None
    """Of the stored schedule that counts; None: what code declares counts."""


@dataclass(frozen=True, slots=True)
class StoredSchedule:
    """A stored schedule as a replica reads it, without what its message is made of."""

    name: str
    version: int
    edit: int
    over: bool
    """It was removed, or it was for one run and had it."""
    local: bool
    run: str
    task: str
    schedule: str
    """As JSON text; equal schedules have equal texts."""
    policies: str
    starts_us: int | None
    ends_us: int | None
    once: bool
    once_us: int | None
    """When it is to run, if that is once."""
    row: Row | None
    """What its row in pecker_tasks says; None: there is none."""
    args: Any = None
    """With kwargs and options: what its message is made of, if it was asked for."""
    kwargs: Any = None
    options: Any = None


@dataclass(frozen=True, slots=True)
class Orphan:
    """A slot that was claimed and never confirmed, reclaimed by this replica."""

    name: str
    due_us: int
    epoch: int
    era: int
    attempt: int
    asked: bool
    ends_us: int | None
    """The deadline, if it was asked for."""


@dataclass(frozen=True, slots=True)
class RequestedRun:
    """A requested run, and its entry's row at that time."""

    name: str
    due_us: int
    """When it was asked for."""
    era: int
    epoch: int
    """0 until a replica takes it."""
    taken: bool
    """Whether a replica is sending it."""
    ends_us: int | None
    executed_us: int
    task_epoch: int

    @property
    def waits(self) -> bool:
        """Whether no replica has claimed it."""
        return not self.epoch

    def over(self, now_us: int) -> bool:
        """Return whether it was sent, and its deadline is over."""
        sent = self.epoch > 0 and not self.taken
        return sent and (self.ends_us is None or self.ends_us <= now_us)


def task_id(schema: str, name: str, due_us: int, era: int) -> str:
    """Return the one id that the message of a slot has, from each replica.

    It is ``uuid5(NAMESPACE, schema NUL name NUL due_us NUL era)``, spelled out: making
    the UUID object and printing it cost three times as much (5 us of the 20 that a
    message takes in all).
    """
    slot = f"{schema}\0{name}\0{due_us}\0{era}".encode()
    text = sha1(NAMESPACE.bytes + slot, usedforsecurity=False).hexdigest()
    variant = "89ab"[int(text[16], 16) & 3]
    return (
        f"{text[:8]}-{text[8:12]}-5{text[13:16]}-{variant}{text[17:20]}-{text[20:32]}"
    )
