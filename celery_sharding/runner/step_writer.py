"""What a running shard writes to, and why it is to stop."""

from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Protocol

from celery_sharding.model import Job, Options, Step


class Stop(StrEnum):
    """Why no further item is begun."""

    END = "end"
    """There is none."""
    PAUSED = "paused"
    OVER = "over"
    """The job is done with items: cancelled, failed, or past its deadline."""
    CROWDED = "crowded"
    """The job's concurrency was lowered: there is no room for this ticket."""
    SHUTDOWN = "shutdown"
    """The worker stops."""
    KILLED = "killed"
    """This process, or greenlet, is ended from outside."""
    AWAY = "away"
    """Where its items are did not answer."""
    LOST = "lost"
    """Another has the ticket, or may have it: nothing may be written any more."""
    TIMED_OUT = "timed out"
    """The shard has taken as long as it may."""
    FAILED = "failed"
    """An item failed, and the job is to fail with the first."""


class StepWriter(Protocol):
    """What a running shard writes to: the ledger, or lists in eager mode."""

    @property
    def due(self) -> float:
        """The monotonic moment from which on a shard is to write its cursor."""

    def write(self, step: Step) -> Stop | None:
        """Take what a shard has come to; return why it is to stop, or None.

        That of a running shard is written when this returns; that of an ended one
        may stay here until the next write.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What the shards of a job have in common, in this process."""

    job: Job
    options: Options
    layers: int = 1
    pool: str = ""
    """Celery's word for the pool: how code is interrupted (`deadline.enforce`)."""
    until: float = inf
    """The job's deadline as a monotonic moment."""


@dataclass(slots=True)
class StepList:
    """A writer into a list: each step is kept, and none is a reason to stop."""

    steps: list[Step] = field(default_factory=list)
    due: float = inf
    """No other process waits for progress."""

    def write(self, step: Step) -> Stop | None:
        """Keep the step."""
        self.steps.append(step)
        return None
