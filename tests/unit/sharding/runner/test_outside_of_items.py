"""Code that raises while it has no item in hand: nothing undone is counted as done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import length_hint
from typing import Any

import pytest

from celery_sharding.model import Code
from celery_sharding.policies import FailFast, Isolate, Policy, Retry
from celery_sharding.runner import Shard, StepList, Stop
from tests.unit.sharding.runner.lists import Told, places, record, results, run

each_item = partial(StepList, due=0.0)
"""Makes a writer that is due at each item, so that each cursor is written at once."""


def collected(shard: Shard) -> None:
    """Ask for all items, and fail before any of them is worked on."""
    rows = list(shard)
    raise ValueError(len(rows))


def iterated(shard: Shard) -> None:
    """Ask for one after the other, and fail behind the last."""
    items: Iterator[Any] = iter(shard)
    while next(items, None) is not None:
        pass
    raise ValueError(0)


def committed(shard: Shard) -> None:
    """Fail when all of them are to be committed together."""
    for _ in shard:
        pass
    raise ValueError(0)


forms = pytest.mark.parametrize("process", [collected, iterated, committed])
writers = pytest.mark.parametrize("writer", [StepList, each_item])


@forms
@writers
@pytest.mark.parametrize("policy", [Isolate(), FailFast()])
def test_all_items_of_the_call_have_failed(
    process: Callable[[Shard], None], writer: type[StepList], policy: Policy
) -> None:
    """Each of them counts, whatever cursor was written meanwhile."""
    stop, written = run(process, writer=writer(), on_error=policy)
    step = written.steps[-1]
    assert (step.status, step.done, step.failed) == (Code.FAILED, 0, 10)
    assert (step.cursor, places(written)) == (0, [-1])
    assert stop is (Stop.FAILED if isinstance(policy, FailFast) else Stop.END)


@forms
@writers
def test_all_items_of_the_call_are_tried_again(
    process: Callable[[Shard], None], writer: type[StepList]
) -> None:
    """By the policy, in a shard of their own; in the last attempt they have failed."""
    _, written = run(process, writer=writer(), on_error=Retry(1, backoff=2.0))
    step = written.steps[-1]
    assert step.retry == (tuple(range(10)), 2.0)
    assert (step.status, step.done, step.failed) == (Code.SUCCEEDED, 0, 0)
    last = record(10, attempt=1)
    _, written = run(process, writer=writer(), on_error=Retry(1), given=last)
    step = written.steps[-1]
    assert (step.retry, step.done, step.failed) == (None, 0, 10)


@writers
def test_what_ok_confirmed_stays_done(writer: type[StepList]) -> None:
    """What it did not confirm has failed: one by one before, as a whole behind it."""

    def process(shard: Shard) -> None:
        for item in shard:
            if item in {20, 50}:
                shard.ok(item)
            if item == 30:
                shard.fail("bad")
        shard.ok("of no item")
        raise ValueError

    _, written = run(process, writer=writer())
    step = written.steps[-1]
    assert (step.status, step.cursor) == (Code.FAILED, 6)
    assert (step.done, step.failed) == (2, 8)
    assert places(written) == [3, 0, 1, 4, -1]
    assert results(written) == [20, 50]
    _, written = run(process, writer=writer(), on_error=Retry(1, backoff=0.0))
    step = written.steps[-1]
    assert step.retry is not None
    assert sorted(step.retry[0]) == [0, 1, 3, 4, 6, 7, 8, 9]
    assert (step.status, step.done, step.failed) == (Code.SUCCEEDED, 2, 0)


@writers
def test_only_the_call_that_raised_is_undone(writer: type[StepList]) -> None:
    """What an earlier call had asked for, up to its failed item, has ended."""
    calls: list[int] = []

    def process(shard: Shard) -> None:
        calls.append(shard.cursor)
        for item in shard:
            if item == 40:
                message = "bad"
                raise KeyError(message)
        raise ValueError

    _, written = run(process, writer=writer(), returns=False)
    step = written.steps[-1]
    assert calls == [0, 5]
    assert (step.cursor, step.done, step.failed) == (5, 4, 6)
    assert places(written) == [4, -1]
    # Until a call has returned nobody knows whether they return values.
    _, written = run(process, writer=writer())
    step = written.steps[-1]
    assert (step.cursor, step.done, step.failed) == (5, 0, 10)
    assert places(written) == [4, 0, 1, 2, 3, -1]


def test_what_ended_in_an_earlier_process_stays() -> None:
    """Its call is no more; what it had written counts."""
    _, written = run(collected, given=record(10, cursor=6, done=5, failed=1))
    step = written.steps[-1]
    assert (step.cursor, step.done, step.failed) == (6, 5, 5)


@pytest.mark.parametrize("stop", [Stop.PAUSED, Stop.SHUTDOWN, Stop.CROWDED])
def test_a_call_that_raises_when_it_is_told_to_stop_is_run_again(stop: Stop) -> None:
    """It had asked for items until then, and worked on none of them."""
    said, written = run(committed, writer=Told(4, stop))
    step = written.steps[-1]
    assert said is stop
    assert (step.status, step.cursor, step.done, step.failed) == (100, 0, 0, 0)
    assert places(written) == []


@pytest.mark.parametrize("collect", [list, sorted, lambda shard: [*shard]])
@pytest.mark.parametrize("deaths", [0, 2])
def test_items_that_are_collected_end_together(
    collect: Callable[[Shard], list[Any]], deaths: int
) -> None:
    """A process that is killed while it works on them leaves no cursor behind them."""
    writer, worked = each_item(), [0]

    def process(shard: Shard) -> int:
        rows = collect(shard)
        assert all(step.cursor <= sum(worked) for step in writer.steps)
        worked.append(len(rows))
        return len(rows)

    _, written = run(process, writer=writer, given=record(10, deaths=deaths))
    step = written.steps[-1]
    assert (step.status, step.done, sum(worked)) == (Code.SUCCEEDED, 10, 10)


def test_a_loop_that_somebody_measures_is_a_loop() -> None:
    """Who asks for the length before there is an iterator shows progress of a loop."""

    def process(shard: Shard) -> None:
        assert length_hint(shard) == 10 - shard.cursor
        for item in shard:
            if item == 40:
                raise ValueError(item)

    _, written = run(process)
    step = written.steps[-1]
    assert (places(written), step.done, step.failed) == ([4], 9, 1)


def test_the_rest_is_collected_after_the_first() -> None:
    """The first has ended with that."""

    def process(shard: Shard) -> None:
        next(iter(shard))
        list(shard)
        message = "no item in hand"
        raise ValueError(message)

    _, written = run(process)
    step = written.steps[-1]
    assert (step.cursor, step.done, step.failed) == (0, 0, 10)


def test_an_item_in_hand_fails_alone() -> None:
    """Asking for the next one said that the one before has ended."""

    def process(shard: Shard) -> None:
        items = iter(shard)
        raise ValueError(next(items), next(items), next(items))

    _, written = run(process, 3, returns=False)
    step = written.steps[-1]
    assert (step.status, step.done, step.failed) == (Code.SUCCEEDED, 2, 1)


def test_a_repeat_that_fails_so_mends_nothing() -> None:
    """The failures that it was to make good stand."""
    picks = record(3, origin=2, attempt=1, picks=[4, 5, 9])
    _, written = run(collected, 3, given=picks, on_error=Retry(1))
    step = written.steps[-1]
    assert (step.mended, step.done, step.failed) == ((), 0, 3)


@pytest.mark.parametrize("batch", [1, 4])
def test_a_batch_is_searched_as_ever(batch: int) -> None:
    """Its items end together: whoever raises has confirmed none."""
    _, written = run(collected, batch=batch)
    step = written.steps[-1]
    assert (step.status, step.done, step.failed) == (Code.SUCCEEDED, 0, 10)
    assert places(written) == [*range(10)]
