"""A ticket that a process holds, and the ledger's replies under it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from celery_sharding.model.jobs import Options
from celery_sharding.model.states import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A ticket that this process holds: what may be written is written under it."""

    job: int
    ticket: int
    seq: int
    """The fencing token: also the epoch of the shards that are claimed under it."""
    holder: str
    """Names the process life: hostname, pid and chance."""


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
