"""What people see of alarms: the command line, the page in Flower, and metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from celery_pecker.alarms.kinds import KINDS, length
from celery_pecker.kernel.clock import from_us
from celery_pecker.kernel.database import Database

MOST = 1_000
EVERY_ALARM: Mapping[str, None] = {"state": None, "rule": None, "subject": None}


@dataclass(frozen=True, slots=True)
class AlarmRow:
    """One alarm."""

    rule: str
    kind: str
    subject: str
    state: str
    """pending, ringing or recovered."""
    severity: str
    """critical or warning."""
    detail: str
    since: datetime
    """Since when it is so."""
    rang_at: datetime | None
    recovered_at: datetime | None
    seen_at: datetime
    """When a look found it last."""
    noticed: bool
    """Whether notices of this ringing were written; not within the cool-down."""
    times: int
    """How often it has begun to ring."""
    taken_by: str | None
    """Who looks after it."""
    taken_at: datetime | None
    note: str | None
    """What they said of it."""
    muted_by: str | None
    """Who said that nothing is sent of it."""
    snoozed_until: datetime | None
    """Until then nothing is sent of it."""
    waiting: list[str]
    """Targets that do not have its newest notice yet."""
    now: datetime

    @property
    def key(self) -> str:
        """Return what no two alarms share."""
        return f"{self.rule}\0{self.subject}"

    @property
    def opens(self) -> str:
        """Return where Flower shows the subject, behind the address of Flower."""
        return KINDS[self.kind].opens(self.subject) if self.kind in KINDS else "alarms"

    @property
    def quiet(self) -> str:
        """Return why nothing is sent of it; empty: it is."""
        if self.muted_by is not None:
            return f"muted by {self.muted_by}"
        if self.snoozed_until is None:
            return ""
        left = (self.snoozed_until - self.now).total_seconds()
        return f"snoozed for {length(left)}"

    @property
    def handling(self) -> str:
        """Return who has it, with their note, and why nothing is sent of it."""
        taken = f"{self.taken_by} has it" if self.taken_by is not None else ""
        note = f": {self.note}" if taken and self.note else ""
        return "; ".join(one for one in (taken + note, self.quiet) if one)


@dataclass(frozen=True, slots=True)
class TargetRow:
    """Where notices go."""

    target: str
    sent: int
    sent_at: datetime | None
    failures: int
    """In a row; 0: it takes what it is sent."""
    failing_since: datetime | None
    next_at: datetime | None
    """Nothing is sent there before."""
    last_error: str | None
    waiting: int


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A rule, and what rings of it."""

    rule: str
    ringing: int
    kind: str
    """Of what rings; empty where nothing does."""
    looked: float
    """Seconds since a replica looked."""
    waiting: int
    """Notices of all rules that wait."""


class AlarmsOverview:
    """What the tables say of alarms, over one connection: of one thread at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def alarms(
        self,
        *,
        every: bool = False,
        limit: int = 100,
        behind: Sequence[str] = ("", ""),
        **which: str | None,
    ) -> Sequence[AlarmRow]:
        """Return what rings, the newest first; ``every``: and what has recovered.

        ``behind``: those behind the alarm of this rule and subject; ``which``: those of
        a `state`, a `rule`, or with this part of a `subject`.
        """
        asked = {**EVERY_ALARM, **which, "behind": [*behind]}
        most = min(limit, MOST)
        return self._database.read(
            AlarmRow, "list_alarms", every=every, most=most, **asked
        )

    def now(self) -> datetime:
        """Return the database's time."""
        return from_us(self._database.run("read_clock")[0][0])

    def targets(self) -> Sequence[TargetRow]:
        """Return where notices went, or should."""
        return self._database.read(TargetRow, "list_alarm_targets")

    def rules(self) -> Sequence[RuleRow]:
        """Return the rules that replicas have looked at, within a day."""
        return self._database.read(RuleRow, "count_alarms")
