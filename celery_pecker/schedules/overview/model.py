"""The nouns that people see. Instants are whole microseconds since 1970 (``_us``)."""

import uuid
from dataclasses import dataclass

from celery_pecker.kernel.errors import PeckerError
from celery_pecker.schedules.history.outcomes import COLUMNS


class NotDeclared(PeckerError):
    """No living replica's code declares the entry: it would not run."""


class NoRoom(PeckerError):
    """No run fits between two slots: the entry's timeout is as long as its period."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BadEnd:
    """The last slot of an entry that was not sent, or whose run ended badly."""

    state: str
    """What became of it, in lower case; see `history.Report`."""
    due_us: int
    era: int
    at_us: int
    """When that was reported."""
    host: str | None
    """The worker that reported it; None for a scheduler."""
    error: str
    """What it raised, cut; empty where nothing was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryOutcomes:
    """How the runs of an entry ended, as far as workers and schedulers say."""

    failing: bool
    """Its last slot was not sent, its last run ended badly, or one did lately."""
    undelivered: bool
    """Its last slot was not sent."""
    unreported_us: int | None = None
    """Since when what was sent should have begun, and no worker reports of it."""
    counts: dict[str, int]
    """By what became of them; the columns of pecker_outcomes."""
    bad: BadEnd | None


NOTHING_YET = EntryOutcomes(
    failing=False, undelivered=False, counts=dict.fromkeys(COLUMNS, 0), bad=None
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRow:
    """One entry in a list."""

    name: str
    task: str
    schedule: str
    run: str
    """dispatch or local."""
    delivery: str
    period_us: int | None
    """None where it is no grid."""
    timeout_us: int | None
    last_us: int
    """The last slot that was won; of a new entry when it was first seen."""
    next_us: int | None
    """The next slot; None where only the app's code can say."""
    late_us: int | None
    """How late the last message was that was reported."""
    overdue_us: int
    """For how long the next slot has been due; of a grid only."""
    holder: uuid.UUID | None
    host: str | None
    epoch: int
    era: int
    missed: int
    paused: bool
    declared: bool
    state: str
    """One of `states.STATES`."""
    spark: list[int]
    """How late the last slots were, oldest first."""
    outcomes: EntryOutcomes = NOTHING_YET


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPage:
    """Some entries out of all that were asked for."""

    total: int
    rows: list[EntryRow]
    now_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRow:
    """What is known of one slot."""

    due_us: int
    era: int
    epoch: int
    late_us: int | None
    state: str
    """The furthest that was reported of it, in lower case; see `history.Report`."""
    at_us: int
    """When that was reported."""
    holder: uuid.UUID
    host: str | None


@dataclass(frozen=True, slots=True)
class Fence:
    """The run of an entry that last started."""

    epoch: int
    era: int
    attempt: int
    due_us: int
    started_us: int


@dataclass(frozen=True, slots=True)
class PendingRow:
    """A slot that waits for its message's confirmation, or a run asked for."""

    due_us: int
    era: int
    epoch: int
    attempt: int
    asked: bool
    asked_by: str | None
    claimed_us: int | None
    """None for a run that no replica has claimed yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryDetail:
    """One entry and what became of its last slots."""

    row: EntryRow
    now_us: int
    declared_until_us: int | None
    holder_seen_us: int | None
    slots: list[SlotRow]
    """Newest first."""
    fence: Fence | None
    pending: list[PendingRow]


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """One process life of a scheduler."""

    holder: uuid.UUID
    host: str
    pid: int
    version: str
    kind: str
    entries: int
    differing: list[str]
    """Entries that another replica has declared otherwise for minutes."""
    started_us: int
    seen_us: int
    living: bool
    won: int
    """Entries whose last slot it won."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockingSession:
    """A session of PostgreSQL with locks that claims pass over or wait for."""

    pid: int
    user: str
    application: str
    state: str
    query: str
    since_us: int
    """When its transaction began."""
    age: float
    """Seconds since then."""
    key: str
    """What no other session has, nor a later one of the same process number."""

    @property
    def words(self) -> str:
        """Return it for people, with what it ran last."""
        who = f"user {self.user}, application {self.application or 'without a name'}"
        query = self.query or "its query is not shown to this role"
        return f"process {self.pid} of PostgreSQL ({who}, {self.state}): {query}"

    @property
    def end(self) -> str:
        """Return what ends it."""
        return f"end its transaction, or: select pg_terminate_backend({self.pid})"


@dataclass(frozen=True, slots=True)
class Totals:
    """The figures of all entries, as the statement that counts them names them.

    Overdue are those on a grid alone: when a crontab is due only the app's code can
    say.
    """

    now_us: int
    entries: int
    declared: int
    undeclared: int
    grid: int
    """That are declared and on a grid."""
    local: int
    paused: int
    new: int
    overdue: int
    missed: int
    worst_us: int
    """How long the most overdue slot has been due."""
    failing: int
    """Declared entries whose last slot was not sent, or ended badly."""
    undelivered: int
    """Those of them whose last slot was claimed and not sent."""
    unreported: int
    """Others, of whose messages no worker reports although they should have begun."""
    unclaimed: int
    """Declared entries whose slots no living replica would claim."""
    worst: str | None
    pending: int
    asked: int
    stuck: int
    """Slots claimed long ago that the broker has not confirmed."""
    replicas: int
    """That live."""
    unreadable: int
    """Stored schedules that some living replica cannot read, and so does not run."""
    counts: dict[str, int]
    """What became of all runs; the columns of pecker_outcomes."""

    @property
    def keeps_up(self) -> bool:
        """Return whether all that is due is won, and what is won is sent."""
        return not (self.overdue or self.unclaimed or self.undelivered or self.stuck)
