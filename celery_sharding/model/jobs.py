"""A job: how it runs, how far it is, what failed of it, what its functions get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from celery_sharding.model.states import Code, Cut, Outcome, Placement, Stage


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
