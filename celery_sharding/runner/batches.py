"""How many shards are claimed at once: enough for a moment's work, never much more.

Shards that take a millisecond are not worth three round trips each; shards that were
claimed and wait behind a slow one are kept from others.
"""

from __future__ import annotations

from collections import OrderedDict

TARGET = 0.3
"""Seconds of work in a batch."""
MOST = 500
"""Shards in a batch, at most."""
GROWTH = 4
"""How much more than the last time is claimed, at most."""
WEIGHT = 0.5
"""Of the last batch, in what a shard is believed to take."""
KEPT = 100
"""Jobs that are remembered, in each process."""


class Batch:
    """How many shards of one job are claimed at once, by what they took so far."""

    __slots__ = ("_each", "size")

    def __init__(self) -> None:
        self.size = 1
        self._each: float | None = None

    def took(self, shards: int, seconds: float, *, slice_: float) -> None:
        """Note that so many shards took so long; `size` is what to claim the next time.

        ``slice_``: seconds that a ticket may be kept; a batch is at most half of it.
        """
        if not shards:
            return
        each = max(seconds / shards, 1e-6)
        if self._each is not None:
            each = WEIGHT * each + (1 - WEIGHT) * self._each
        self._each = each
        fits = int(min(TARGET, slice_ / 2) / each)
        self.size = max(1, min(fits, self.size * GROWTH, MOST))

    def alone(self) -> None:
        """Begin with one shard: a process died over one, and others may be like it."""
        self.size = 1
        self._each = None


class Batches:
    """What this process knows of the jobs that it last ran shards of."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[int, Batch] = OrderedDict()

    def of(self, job: int) -> Batch:
        """Return the batches of a job."""
        batch = self._jobs.pop(job, None) or Batch()
        self._jobs[job] = batch
        while len(self._jobs) > KEPT:
            self._jobs.popitem(last=False)
        return batch
