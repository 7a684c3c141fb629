"""A shard: as it is planned, as it is claimed, and what it comes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from celery_sharding.model.states import Code


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
    lo: int
    hi: int
    cursor: int
    """How many of its items have ended, counted from 0 whatever `lo` and `picks`."""
    ahead: int
    done: int
    failed: int
    deaths: int
    attempt: int
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
