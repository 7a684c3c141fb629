"""The argument of a processor: its items one by one, and methods for their results.

for row in shard:
    shard.ok(save(row))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from celery_sharding.model import Job
from celery_sharding.runner.limits import call_each
from celery_sharding.runner.shard_run import ShardRun
from celery_sharding.runner.step_writer import Stop


class Shard:
    """A part of a layer, as its processor sees it.

    Iterating gives the items that have not ended yet. An item has ended, and well,
    when the next is asked for, or the processor returns. What the processor raises
    meanwhile is the failure of the item in hand: it is recorded, and the processor is
    called once more for those after it.

    ``list(shard)`` asks for all of them: they end together when the processor returns.

    With ``batch=`` each call is given that many items; they end together when it
    returns. If it raises, the next call has half as many, until the item that
    fails is alone.

    Iteration may end early: the job was paused or cancelled, or the worker stops. The
    rest is run later, perhaps elsewhere; see `stop`.
    """

    __slots__ = ("_keep", "_shard_run")

    def __init__(self, shard_run: ShardRun) -> None:
        self._shard_run = shard_run
        # Called for each item: one call less is 3 % of what an item costs.
        self._keep = shard_run.buffer.keep

    def __iter__(self) -> Iterator[Any]:
        """Yield the items that have not ended yet."""
        return self._shard_run.each()

    def __length_hint__(self) -> int:
        """Return how many are left: `list` asks, between `iter` and the first item.

        So do ``sorted(shard)`` and ``[*shard]``. A loop does not, and code that asks
        before there is an iterator is about to loop.
        """
        return self._shard_run.may_collect()

    def __repr__(self) -> str:
        return f"<Shard {self.number} of {self.job.task}[{self.job.id}]>"

    def ok(self, value: Any) -> None:
        """Keep a result of the item in hand: PostProcess is given it.

        It counts if the item ends well. Anything that JSON can hold.
        """
        self._keep((self._shard_run.at - 1, value))

    def fail(self, error: BaseException | str) -> None:
        """Fail the current item for that reason; the loop goes on.

        Raising says the same, but ends this call of the processor.
        """
        self._shard_run.fail(error)

    def retry(self, error: BaseException | str, after: float = 0.0) -> None:
        """Fail the current item, and retry it whatever `on_error` says.

        In a shard of its own, or with others that failed; not before that many seconds.
        """
        self._shard_run.retry(error, after)

    def each(self, function: Callable[[Any], Any]) -> None:
        """Call the function with each item that has not ended yet.

        What it returns is a result of the item unless it is None; what it raises, its
        failure: the loop goes on.
        """
        call_each(function, self, self.ok, self._shard_run.raised_by_item)

    @property
    def job(self) -> Job:
        """The job: its id, task, arguments."""
        return self._shard_run.work.job

    @property
    def number(self) -> int:
        """Which shard of the job this is, from 0."""
        return self._shard_run.record.shard

    @property
    def layer(self) -> int:
        """Which layer it is of, from 0."""
        return self._shard_run.record.layer

    @property
    def layers(self) -> int:
        """How many layers the job has."""
        return self._shard_run.work.layers

    @property
    def count(self) -> int:
        """Its items, ended ones included."""
        return self._shard_run.count

    @property
    def cursor(self) -> int:
        """How many of them have ended."""
        return self._shard_run.cursor

    @property
    def attempt(self) -> int:
        """The how-manieth attempt at these items this is, from 1."""
        return self._shard_run.record.attempt + 1

    @property
    def item_id(self) -> str:
        """A name of the item in hand, the same in each attempt at it."""
        return f"{self.job.id}-{self._shard_run.record.origin}-{self._shard_run.place}"

    @property
    def stop(self) -> Stop | None:
        """Why no further item is given; None while there may be one."""
        return self._shard_run.stop
