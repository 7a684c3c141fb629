"""What people see of sharded jobs: read from the ledger, never from events.

    snapshot   one job at one instant: itself, layers, grid, stragglers, errors
    verdict    how a job stands, in one word and one sentence: pure
    meanings   what each status code means, for people: pure
    pace       how fast it goes just now, from one snapshot to the next: pure

The command line and the pages in Flower stand on these. They need nothing but the
tables: no broker, no worker that answers, no code of the job.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

from celery_pecker.kernel.error_groups import ErrorGroup, grouped
from celery_pecker.surfaces.views.error_groups import note_of
from celery_pecker.surfaces.views.phrases import plural
from celery_sharding.errors import NoExecutor
from celery_sharding.ledger import Ledger
from celery_sharding.ledger.rows import ErrorRow, Grid, JobRow, ShardRow
from celery_sharding.model import Code, LayerProgress, Outcome, Progress, Stage

WINDOW = timedelta(seconds=15)
"""What of the past counts as now."""


class JobPace:
    """Items that ended per second, over the last looks.

    The ledger has the mean since the beginning, which an hour's pause makes useless.
    Times are the database's: those of the looks.
    """

    def __init__(self) -> None:
        self._seen: deque[JobRow] = deque()

    def see(self, row: JobRow) -> None:
        """Count what ended until this look; a run anew begins anew."""
        if self._seen and (self._seen[-1].run != row.run or row.paused):
            self._seen.clear()
        self._seen.append(row)
        # The one at or before the window's edge stays: from it, the window is full.
        while len(self._seen) > 2 and row.now - self._seen[1].now >= WINDOW:  # noqa: PLR2004  # a pace has two ends
            self._seen.popleft()

    @property
    def rate(self) -> float:
        """Items per second; the mean since the beginning where that is all there is."""
        if not self._seen:
            return 0.0
        first, last = self._seen[0], self._seen[-1]
        passed = (last.now - first.now).total_seconds()
        if passed <= 0:
            return last.progress().rate
        ended = last.done + last.failed - first.done - first.failed
        return max(ended, 0) / passed

    @property
    def eta(self) -> timedelta | None:
        """Until the last item; None: it is not known, or nothing is left."""
        if self.rate <= 0:
            return None
        row = self._seen[-1]
        left = row.total - row.done - row.failed
        if left <= 0 or row.paused:
            return None
        return timedelta(seconds=min(left / self.rate, 1e9))


class Meaning(NamedTuple):
    """A code in words."""

    name: str
    why: str


MEANINGS = {
    Code.WAITING: Meaning("waiting", "another layer is first, or a moment to come"),
    Code.READY: Meaning("ready", "any worker may claim it"),
    Code.PUSHED: Meaning("claimed", "a worker has it, and has not begun it"),
    Code.RUNNING: Meaning("running", "a worker runs its items"),
    Code.TIMED_OUT: Meaning("too long", "it took, or takes, longer than it may"),
    Code.SUCCEEDED: Meaning("done", "its items ended; some may have failed"),
    Code.FAILED: Meaning("failed", "it failed as a whole"),
    Code.UNTAKEN: Meaning("untaken", "ready for long, and no worker claims it"),
    Code.STALLED: Meaning("stalled", "claimed for long, and not begun"),
    Code.DIED: Meaning("died", "its process died; it goes on elsewhere, or ended so"),
}


def in_words(code: Code) -> str:
    """Return a code as people read it: failed (302)."""
    return f"{MEANINGS[code].name} ({int(code)})"


class State(StrEnum):
    """How a job stands, as people ask for it."""

    SUBMITTED = "submitted"
    PLANNING = "planning"
    RUNNING = "running"
    WAITING = "waiting"
    """Shards are left, and no worker holds one of its tickets."""
    STARVED = "starved"
    """No live worker runs shards."""
    PAUSED = "paused"
    POSTING = "posting"
    DELIVERING = "delivering"
    SUCCEEDED = "succeeded"
    PARTLY = "partly failed"
    """It succeeded, and items of it failed."""
    FAILED = "failed"
    CANCELLED = "cancelled"


class JobVerdict(NamedTuple):
    """A word, and why."""

    state: State
    why: str


ENDED = frozenset({State.SUCCEEDED, State.PARTLY, State.FAILED, State.CANCELLED})
"""States after which nothing follows, unless the job is run again."""
SENT = "its message was sent, and no worker has begun it"
STARVED = "no live worker runs shards: start one with this app"
DELIVERS = "its outcome stands, and is being reported to Celery"


def verdict(row: JobRow) -> JobVerdict:
    """Return how a job stands."""
    if row.stage is Stage.ENDED:
        return _ended(row)
    if row.stage is Stage.DELIVERING:
        return JobVerdict(State.DELIVERING, DELIVERS)
    if row.paused:
        return JobVerdict(State.PAUSED, "it is paused: nothing of it runs")
    if row.stage is Stage.SHARDING:
        return _sharding(row)
    return _begun(row)


def _begun(row: JobRow) -> JobVerdict:
    if row.stage is Stage.SUBMITTED:
        return JobVerdict(State.SUBMITTED, SENT if row.executors else _starved())
    state = State(row.stage.value)
    what = "PreProcess gives its items" if state is State.PLANNING else "Post runs"
    repeats = (
        f", begun {row.attempts} times: processes died" if row.attempts > 1 else ""
    )
    return JobVerdict(state, what + repeats)


def _sharding(row: JobRow) -> JobVerdict:
    layer = f"layer {row.layer + 1} of {row.layers}"
    if row.held:
        many = f"{row.held} of at most {row.concurrency}"
        return JobVerdict(State.RUNNING, f"{layer}: {many} shards run{_failed(row)}")
    if not row.executors:
        return JobVerdict(State.STARVED, _starved())
    return JobVerdict(State.WAITING, f"{layer}: shards wait for a worker that is free")


def _starved() -> str:
    return f"{NoExecutor.code}: {STARVED}"


def _ended(row: JobRow) -> JobVerdict:
    if row.outcome is Outcome.CANCELLED:
        return JobVerdict(State.CANCELLED, "it was cancelled")
    if row.outcome is Outcome.FAILED:
        why = reason(row) or "it failed"
        early = "" if row.planned_at else "before it had items, in planning: "
        return JobVerdict(State.FAILED, early + why)
    state = State.PARTLY if row.failed else State.SUCCEEDED
    done = f"{row.done:,} of {row.total:,} items done"
    return JobVerdict(state, done + _failed(row))


def _failed(row: JobRow) -> str:
    return f", {plural(row.failed, 'item')} failed" if row.failed else ""


def reason(row: JobRow) -> str:
    """Return why a job failed: its type and message; empty if it did not."""
    if not row.error:
        return ""
    kind, message = row.error.get("type"), row.error.get("message")
    return ": ".join(str(part) for part in (kind, message) if part)


STRAGGLERS = 10
ERRORS = 20
GROUPED = 1_000
"""Failed items whose errors are grouped for a look, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All that is shown of a job at once."""

    row: JobRow
    layers: Sequence[LayerProgress]
    grid: Grid
    stragglers: Sequence[ShardRow]
    errors: Sequence[ErrorRow]
    more_errors: bool
    """Whether there are errors behind these."""
    groups: Sequence[ErrorGroup]
    """Errors that are one."""
    note: str
    """What is to say of them."""

    @property
    def progress(self) -> Progress:
        """Return how far it is."""
        return self.row.progress(tuple(self.layers))

    @property
    def verdict(self) -> JobVerdict:
        """Return how it stands, in a word and a sentence."""
        return verdict(self.row)


def take_snapshot(
    ledger: Ledger, task_id: str, *, errors_after: tuple[int, int] = (-1, -1)
) -> Snapshot:
    """Return how a job stands, in bounded work; raise JobNotFound."""
    reading = ledger.reading
    row = reading.job(task_id)
    layers = reading.layers(row.leading)
    failed = reading.errors(row.leading, after=errors_after, most=ERRORS + 1)
    groups, note = error_groups(ledger, row, most=GROUPED)
    return Snapshot(
        row=row,
        layers=layers,
        grid=reading.grid(row.leading),
        stragglers=reading.stragglers(row.leading, most=STRAGGLERS),
        errors=failed[:ERRORS],
        more_errors=len(failed) > ERRORS,
        groups=groups,
        note=note,
    )


def error_groups(
    ledger: Ledger, row: JobRow, *, most: int
) -> tuple[list[ErrorGroup], str]:
    """Return the errors of a job that are one, and what is to say of them."""
    seen = islice(ledger.reading.each_seen(row.leading), most)
    is_open = row.stage is not Stage.ENDED or row.leader is not None
    groups = grouped(seen, job=row.task_id, is_open=is_open)
    read = sum(one.count for one in groups)
    return groups, note_of(read, most, "failed items")
