"""Shards that run over lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from celery_sharding import codec
from celery_sharding.model import Job, Options, Step
from celery_sharding.model import Shard as Record
from celery_sharding.processor import Processor
from celery_sharding.runner import Known, Shard, StepList, Stop, Work, run_shard


class Told(StepList):
    """A writer that is due at each item, and says stop from a given cursor on."""

    def __init__(self, at: int | None = None, stop: Stop = Stop.PAUSED) -> None:
        super().__init__(due=0.0)
        self._at, self._stop = at, stop

    def write(self, step: Step) -> Stop | None:
        """Keep the step; say stop."""
        super().write(step)
        told = self._at is not None and step.cursor >= self._at
        return self._stop if told and not step.status.ended else None


def record(count: int, **given: Any) -> Record:
    """Return a shard that was just claimed."""
    plain = {"cursor": 0, "ahead": 0, "done": 0, "failed": 0, "deaths": 0, "attempt": 0}
    return Record(
        **{"shard": 7, "layer": 0, "origin": 7, "lo": 0, "hi": count, **plain, **given}
    )


def run(  # noqa: PLR0913  # each of them is left out by most tests
    process: Callable[[Shard], Any],
    count: int = 10,
    *,
    writer: StepList | None = None,
    given: Record | None = None,
    again: Sequence[int] = (),
    failed: Iterable[int] = (),
    items: Sequence[Any] | None = None,
    returns: bool | None = None,
    **options: Any,
) -> tuple[Stop, StepList]:
    """Run a shard of the items 0, 10, 20 and so on."""
    told = Options(**options)
    writer = writer or StepList()
    processor = Processor(name="t", process=process, options=told, returns=returns)
    work = Work(job=Job(id="j", task="t"), options=told)
    stop = run_shard(
        processor,
        given or record(count),
        items or [10 * index for index in range(count)],
        work=work,
        writer=writer,
        known=Known(retry=again, failed=frozenset(failed)),
    )
    return stop, writer


def results(writer: StepList) -> list[Any]:
    """Return all results in the order in which they are stored: by cursor."""
    rows = [codec.decode(one.results) for one in writer.steps if one.results]
    return [value for body in rows for value in body]


def places(writer: StepList) -> list[int]:
    """Return where what failed lies."""
    return [one.place for step in writer.steps for one in step.failures]


def double(shard: Shard) -> None:
    """Give each item twice as large."""
    for item in shard:
        shard.ok(2 * item)
