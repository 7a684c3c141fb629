"""The nouns: a rule, what was found, a notice. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase

LOG = "log"
"""The target that is always there."""


class Kind(StrEnum):
    """What a rule looks for."""

    SILENT = "silent"
    HELD = "held"
    FAILING = "failing"
    UNREPORTED = "unreported"
    MISFIRE = "misfire"
    OVERRUN = "overrun"
    OVERTAKEN = "overtaken"
    CLOCK = "clock"
    SHUT = "shut"
    JOB_HANGS = "job_hangs"
    JOB_FAILED = "job_failed"
    JOB_LATE = "job_late"
    OUTBOX_PARKED = "outbox_parked"
    OBSERVER_PARKED = "observer_parked"
    OBSERVER_HOST = "observer_host"
    OBSERVER_NOTICES = "observer_notices"


class Event(StrEnum):
    """What a notice says of its alarm."""

    RINGING = "ringing"
    RECOVERED = "recovered"
    TRIAL = "trial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """When an alarm rings, and what is sent of it. Durations in seconds."""

    after: float
    """For how long it must be so."""
    count: int
    """How many, where the kind counts."""
    within: float
    """The window that is counted in, or for which an event is news."""
    cooldown: float
    """From one notice that it rings to the next, at least."""
    recovery: bool
    """Whether its end is worth a notice."""
    mute: bool = False
    """Whether nothing rings at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What the rule looks for, and the targets that are notified."""

    name: str
    kind: Kind
    terms: Terms
    only: tuple[str, ...] = ("*",)
    """Patterns of the subjects that it is about."""
    each: tuple[tuple[str, Terms], ...] = ()
    """Terms of subjects that match a pattern; the first one that matches holds."""
    to: tuple[str, ...] = ()
    """Targets beside the log."""
    storm: int = 10
    """How many may begin, or end, within a minute with a notice each."""

    def terms_of(self, subject: str) -> Terms | None:
        """Return the terms of a subject; None: the rule is not about it."""
        for pattern, terms in self.each:
            if fnmatchcase(subject, pattern):
                return None if terms.mute else terms
        if any(fnmatchcase(subject, pattern) for pattern in self.only):
            return self.terms
        return None

    @property
    def least(self) -> Terms:
        """The terms by which the most is found: subjects are judged one by one."""
        every = [self.terms, *(terms for _, terms in self.each if not terms.mute)]
        return Terms(
            after=min(one.after for one in every),
            count=min(one.count for one in every),
            within=max(one.within for one in every),
            cooldown=0.0,
            recovery=False,
        )


def one_line(text: str) -> str:
    """Return a name or an error as one line: a line break would begin a forged one."""
    return "".join(one if one.isprintable() else " " for one in text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is wrong by the tables."""

    subject: str
    detail: str
    since: datetime | None = None
    """Since when; None: since it was found."""
    number: float = 0.0
    """How many or how long, where the kind counts."""
    about: str = ""
    """What patterns are compared with; of a job its task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One notice on its way to one target: what a callable is called with."""

    id: int
    """Two of one id are one notice that was sent twice; a newer one has its own."""
    target: str
    rule: str
    kind: str
    subject: str
    event: str
    """ringing, recovered or trial."""
    detail: str
    since: datetime
    """Since when it is so."""
    at: datetime
    """When it rang, or recovered."""
    epoch: int = field(repr=False, default=0)
    tries: int = 0
    subjects: tuple[str, ...] = ()
    """All that it is about: of a storm one notice is sent."""

    @property
    def title(self) -> str:
        """One line."""
        several = len(self.subjects)
        about = f"{several} at once" if several > 1 else one_line(self.subject)
        return f"celery-pecker: {self.event}: {self.rule}: {about}"
