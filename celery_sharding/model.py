"""What a sharded job is made of: words that every room uses.

Codes of shards, stages and outcomes of jobs; a job: how it runs, how far it is, what
failed, what its functions get; a shard as it is planned, as it is claimed, and what it
comes to; a ticket in the hands of a process, and the ledger's replies under it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from typing import Any


class Code(IntEnum):
    """How a shard, or a job as a whole, stands.

    The numbers are those of the scheduler whose design this follows. Stored are
    WAITING, PUSHED, RUNNING, TIMED_OUT, SUCCEEDED, FAILED and DIED; the others are
    derived from these, the job's layer and the time (`overview`).
    """

    WAITING = 100
    """For its trigger: its layer is not the one that runs."""
    READY = 101
    """May be claimed."""
    PUSHED = 201
    """Claimed by a worker, not started."""
    RUNNING = 202
    """Runs."""
    TIMED_OUT = 203
    """Ended, or about to be: it took longer than it may."""
    SUCCEEDED = 301
    """Ended well; items of it may have failed, and were reported."""
    FAILED = 302
    """Ended, and failed as a whole."""
    UNTAKEN = 401
    """Ready for long, and no worker took it."""
    STALLED = 402
    """Claimed for long, and not started."""
    DIED = 403
    """Its process died: for good where it is stored, else about to go on elsewhere."""

    @property
    def ended(self) -> bool:
        """Whether nothing follows, where it is the stored status."""
        return self in ENDED


ENDED = frozenset({Code.TIMED_OUT, Code.SUCCEEDED, Code.FAILED, Code.DIED})
"""Stored statuses after which a shard does not run again by itself."""


class Stage(StrEnum):
    """Where a job is."""

    SUBMITTED = "submitted"
    PLANNING = "planning"
    SHARDING = "sharding"
    POSTING = "posting"
    DELIVERING = "delivering"
    """Its outcome stands in the ledger, and is to be reported to Celery."""
    ENDED = "ended"

    @property
    def past_items(self) -> bool:
        """Whether no item of the job runs any more."""
        return self in _PAST_ITEMS


_PAST_ITEMS = frozenset({Stage.POSTING, Stage.DELIVERING, Stage.ENDED})


class Outcome(StrEnum):
    """How a job ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Placement(StrEnum):
    """Which worker runs which shard."""

    PULL = "pull"
    """Any free worker."""
    EVEN = "even"
    """Each live worker the same number; those of a dead one are dealt anew."""


class Cut(StrEnum):
    """Which items of a layer form a shard."""

    CONTIGUOUS = "contiguous"
    """Neighbours; items may come from an iterator that is read once."""
    HASH = "hash"
    """Index modulo the number of shards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a sharded task runs; set by a decorator, and overridden by a call.

    Durations in seconds. It is stored with each job as JSON (`as_json`, `from_json`
    in `policies`), so a deploy does not change jobs that run.
    """

    size: tuple[int, int] = (1, 1_000)
    """The least and the most items of a shard."""
    cut: Cut = Cut.CONTIGUOUS
    concurrency: int = 64
    """Shards of a job that run at once, at most; may be changed while it runs."""
    lease: float | None = None
    """None: sharding_lease."""
    deadline: float | None = None
    """From submission to the last item; None: none."""
    shard_deadline: float | None = None
    """What a shard may take, all its attempts; None: as long as it likes."""
    item_timeout: float | None = 300.0
    """What one item (or batch) may take before its shard counts as hung; None: none."""
    batch: int | None = None
    """Items that one call of the processor gets, and ends at once; None: one by one."""
    on_error: Any = None
    """A policy of `policies`; None: `Isolate()`."""
    notify_every: float | None = None
    """Fraction of the items after which Notify runs, again and again."""
    placement: Placement = Placement.PULL
    database: str | None = None
    """The name under which the gate knows the database that items touch."""
    queue: str | None = None
    """None: where the job's own message came from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerProgress:
    """How far a layer is."""

    layer: int
    total: int
    done: int
    failed: int
    shards: int
    open: int
    started_at: datetime | None = None
    closed_at: datetime | None = None

    @property
    def fraction(self) -> float:
        """Between 0 and 1; an empty layer is done."""
        ended = self.done + self.failed
        return min(ended / self.total, 1.0) if self.total else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a job is, in items."""

    stage: Stage
    outcome: Outcome | None
    paused: bool
    total: int
    done: int
    failed: int
    layer: int
    """The layer that runs, from 0; `layers` once all have ended."""
    layers: tuple[LayerProgress, ...] = ()
    rate: float = 0.0
    """Items per second since the first was begun."""
    eta: timedelta | None = None
    """Until the last item at this rate; None: not known."""
    elapsed: float = 0.0
    threshold: float | None = None
    """In a call of Notify: the part that this call reports; else None."""

    @property
    def fraction(self) -> float:
        """Between 0 and 1; 0 of a job that failed before it had items.

        In a call of Notify its threshold; `done` and `failed` may be further by then.
        """
        if self.threshold is not None:
            return self.threshold
        if not self.total:
            lost = self.outcome in {Outcome.FAILED, Outcome.CANCELLED}
            return 1.0 if self.stage.past_items and not lost else 0.0
        return min((self.done + self.failed) / self.total, 1.0)

    @property
    def percent(self) -> float:
        """Between 0 and 100."""
        return round(self.fraction * 100, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemError:
    """What a job's errors give, one by one."""

    item: Any
    """None where it is not known: a shard failed as a whole."""
    type: str
    message: str
    traceback: str | None
    code: Code
    attempt: int
    shard: int
    layer: int
    place: int
    worker: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job, as Pre-, Notify- and PostProcess get it."""

    id: str
    """Its task id."""
    task: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    run: int = 1
    attempt: int = 1
    """How often this stage was begun; above 1 a process died in it before."""
    headers: Mapping[str, Any] = field(default_factory=dict)
    """For its items: those that the call set."""
    properties: Mapping[str, Any] = field(default_factory=dict)
    """For its items: options of the call that Celery does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A shard as it is planned; its number is its place among all of the job."""

    layer: int
    count: int
    """Items; of a part whose items were not counted, as many as it may have."""
    body: bytes | None = None
    """Its items, encoded; with a reference, the keys of that part; None: none."""
    reference: Mapping[str, Any] | None = None
    """The part of a source, as JSON, from which its items are read."""
    owner: str | None = None


@dataclass(slots=True, kw_only=True)
class Shard:
    """A claimed shard, as the ledger has it."""

    shard: int
    layer: int
    origin: int
    hi: int
    lo: int = 0
    cursor: int = 0
    """How many of its items have ended, counted from 0 whatever `lo` and `picks`."""
    ahead: int = 0
    done: int = 0
    failed: int = 0
    deaths: int = 0
    attempt: int = 0
    picks: list[int] | None = None
    returned: int = 0
    """Of `done`: those of calls that returned, so that their value is kept."""
    reference: Mapping[str, Any] | None = None
    claimed_at: datetime | None = None
    """When it was first claimed in this attempt: shard_deadline counts from there."""
    spent: float = 0.0
    """Seconds since then, by the database's clock, at this claim."""

    @property
    def count(self) -> int:
        """Its items."""
        return len(self.picks) if self.picks is not None else self.hi - self.lo

    def place(self, index: int) -> int:
        """Return where in the items of its origin its own item of that index lies."""
        return self.picks[index] if self.picks is not None else self.lo + index


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An item that failed, or (place -1) a shard as a whole."""

    origin: int
    place: int
    shard: int
    layer: int
    code: Code
    attempt: int
    type: str
    message: str
    traceback: str | None = None
    item: bytes | None = None
    """Encoded; None: it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one shard has come to since it was last written: a flush, or its end."""

    shard: int
    cursor: int
    ahead: int
    done: int
    """In all, not since the last step."""
    failed: int
    returned: int = 0
    """Of `done`: those of calls of the processor that returned."""
    status: Code = Code.RUNNING
    """An ended code closes the shard; WAITING gives it back as it is."""
    results: bytes | None = None
    """What `ok` was given since the last step, encoded; None: nothing."""
    result: bytes | None = None
    """What the processor returned at its end, encoded; None: nothing."""
    failures: tuple[Failure, ...] = ()
    mended: tuple[tuple[int, int], ...] = ()
    """(origin, place) of failures that a later attempt made good."""
    retry: tuple[tuple[int, ...], float] | None = None
    """Places that failed and are retried in a shard of their own, and after
    how many seconds; with an ended status only. Their failures stand in `failures`."""
    forget: bool = False
    """Whether all results that were written of it before are deleted."""
    count: int | None = None
    """How many items it turned out to have, where a source did not say before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A ticket that this process holds: what may be written is written under it."""

    job: int
    ticket: int
    seq: int
    """The fencing token: also the epoch of the shards that are claimed under it."""
    holder: str
    """Names the process life: hostname, pid and chance."""

    @property
    def named(self) -> dict[str, int]:
        """Return what names it in a statement."""
        return {"job": self.job, "ticket": self.ticket, "seq": self.seq}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a worker reads of the job when it takes a ticket."""

    hold: Hold
    task_id: str
    task: str
    options: Options
    kwargs: Mapping[str, Any]
    """Of the call; positional ones stand in `args`."""
    args: tuple[Any, ...]
    continuation: Mapping[str, Any]
    concurrency: int
    paused: bool
    layer: int
    stage: Stage
    deadline_in: float | None
    """Seconds until the job's deadline when the ticket was taken; None: none."""
    layers: int = 1
    """Of the job, in all."""
    run: int = 1
    """Of the job: above 1 some of its shards are run again."""

    @property
    def queue(self) -> str | None:
        """Where the job's options send its messages, if they say."""
        return self.options.queue


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldReply:
    """The ledger's reply to each write of a holder: whether to go on."""

    held: bool
    """False: another has the ticket; nothing was written, nothing may be."""
    stage: Stage = Stage.SHARDING
    paused: bool = False
    concurrency: int = 1
    layer: int = 0
    layer_open: int = -1
    """Open shards of the layer after this write; 0: the writer has to check whether the
    layer is closed. -1: it was not asked."""
    lost: tuple[int, ...] = ()
    """Shards of this write that are the hold's no more: nothing of them was written."""
