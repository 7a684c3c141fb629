"""How a sharded task runs: the options of its decorator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from celery_sharding.model.states import Cut, Placement


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
