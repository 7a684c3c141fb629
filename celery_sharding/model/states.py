"""How shards and jobs stand, and how they are placed: the words and their numbers."""

from __future__ import annotations

from enum import IntEnum, StrEnum


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
