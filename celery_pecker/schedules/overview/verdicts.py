"""The question "why did it not run?", its answer, and the words of reports. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Self

from celery_pecker.kernel.lease import SECOND
from celery_pecker.schedules.overview.model import (
    EntryDetail,
    LockingSession,
    ReplicaRow,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The question, and all that is known for its answer."""

    name: str
    detail: EntryDetail | None
    """None where the tables know no such entry."""
    replicas: Sequence[ReplicaRow] = ()
    declared_in_code: bool | None = None
    """Whether the asker's own code declares it; None where there is no code."""
    next_us: int | None = None
    """Its next slot; where it is no grid, as the asker's code says."""
    locks: Sequence[LockingSession] = ()
    """Sessions that keep schedulers from rows of entries, the longest first."""
    names: Iterable[str] = ()
    """Known names, to find what may have been meant."""
    overdue_after_us: int = 5 * SECOND
    slack_us: int = 5 * SECOND
    slot_us: int | None = None
    """Which slot is asked for; None: the last one, and the one to come."""


TROUBLE = frozenset(
    {
        "unknown",
        "never_seen",
        "no_live_scheduler",
        "undeclared",
        "overdue",
        "locked",
        "clock_stepped",
        "failing",
        "unreported",
        # Of a message of an outbox, and of an observer
        "parked",
        "broker_away",
        "no_relay",
        "no_worker",
        "no_host",
        "no_room",
        "lapsed",
        "retrying",
    }
)
"""Verdicts of what does not run, or runs badly."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One verdict, what it rests on, and what can be done."""

    verdict: str
    """One word, for programs."""
    why: str
    """One sentence."""
    advice: str | None = None
    facts: list[str] = field(default_factory=list)

    @property
    def trouble(self) -> bool:
        """Whether it does not run, or runs badly."""
        return self.verdict in TROUBLE

    @property
    def shown(self) -> dict[str, object]:
        """What a page shows of it."""
        return {**asdict(self), "trouble": self.trouble}

    @classmethod
    def locked(cls, what: str, session: LockingSession, table: str) -> Self:
        """Return that another session keeps claims from rows of a table."""
        why = f"for {session.age:.0f} s locks of {table} are held by {session.words}"
        return cls("locked", f"{what}: {why}", session.end)


REPORTED: dict[str, tuple[str, str, str | None]] = {
    "published": (
        "published",
        (
            "a message for its slot of {due} was handed to the broker at {when}{late};"
            " no worker has reported of it: it waits in its queue, or its worker died,"
            " or runs without pecker_dsn or an older version"
        ),
        (
            "look for the task in Flower, and whether a worker listens to its queue:"
            " celery -A proj inspect active_queues"
        ),
    ),
    "missed": (
        "expired",
        (
            "its slot of {due} was claimed, but it was too late to send it when the"
            " broker could be reached"
        ),
        "see whether the broker was away; delivery 'at_least_once' is sent again",
    ),
    "misfired": (
        "expired",
        "its slot of {due} was found later than its grace or timeout allows",
        "its misfire policy or grace says so; see whether schedulers lived then",
    ),
    "failed_to_send": (
        "failed_to_send",
        (
            "a message for its slot of {due} could not be sent, or it is not known"
            " whether it was"
        ),
        "see the scheduler's log at {when}",
    ),
    "paused": ("paused", "its slot of {due} passed while it was paused", None),
    "held": (
        "gated",
        "its slot of {due} was held back by the gate (pecker_gate)",
        "it runs when the gate opens, by its misfire policy",
    ),
    "asked": (
        "asked",
        "that run was requested at {due}",
        "it is taken within seconds",
    ),
    "started": (
        "started",
        "its run of {due} has started at {when}{late} and did not yet end",
        None,
    ),
    "running": (
        "started",
        "its run of {due} goes on, as a worker said at {when}",
        None,
    ),
    "lost": (
        "lost",
        (
            "the process that ran its slot of {due} ended without a report, or has not"
            " shown life for a minute, as was seen at {when}"
        ),
        (
            "see the worker's log: it was killed, or out of memory; one that was frozen"
            " or cut off reports when it is back"
        ),
    ),
    "succeeded": ("succeeded", "its run of {due} ended well at {when}{late}", None),
    "failed": (
        "failed",
        "its run of {due} started{late} and failed at {when}",
        "see the worker's log, or the task's result",
    ),
    "overrun": (
        "overrun",
        "its run of {due} went past its deadline and was ended at {when}",
        "give it a longer timeout, or less to do",
    ),
    "refused_late": (
        "expired",
        (
            "a worker got the message of {due} at {when}, after its deadline, and"
            " refused it"
        ),
        (
            "workers are busy or too few, or the queue is long: its timeout is"
            " counted from the slot"
        ),
    ),
    "refused_overtaken": (
        "overtaken",
        (
            "a worker refused the message of {due} at {when}: a newer run of the entry"
            " was claimed or had started"
        ),
        "runs take longer than the period, or messages wait in the queue",
    ),
    "refused_repeated": (
        "repeated",
        (
            "its run of {due} had started before; its message came once more at {when}"
            " and was refused. The end of the first was not reported: it still runs, or"
            " its worker died"
        ),
        "see the worker that had it; brokers deliver again what a dead worker held",
    ),
    "refused_unknown": (
        "refused",
        (
            "a worker refused the message of {due} at {when}: it could not ask the"
            " database whether the run may start"
        ),
        "see whether the worker reaches PostgreSQL (pecker_dsn)",
    ),
}
"""By what was reported of a slot: verdict, sentence, advice."""

GAVE_UP = (
    "given_up",
    (
        "the run that was requested at {due} was given up at {when}: for five"
        " minutes it could not be sent, or the entry's timeout left no room between"
        " two slots"
    ),
    (
        "ask again while a live scheduler reaches the broker; a timeout as long"
        " as the period never leaves room"
    ),
)
"""Of a requested run that no replica has claimed."""
