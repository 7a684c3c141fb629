"""Values of a shard as a whole: what went with a call that did not return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from celery_sharding import codec
from celery_sharding.canvas.eager import ItemOutcomes
from celery_sharding.model import Code, Options, Planned
from celery_sharding.policies import Retry
from celery_sharding.runner import Shard, StepList, Stop
from tests.unit.sharding.runner.lists import Told, double, places, record, results, run


def returned(shard: Shard) -> int:
    """Return the sum of the items; one is bad, or two are."""
    total = 0
    for item in shard:
        if item in BAD:
            raise ValueError(item)
        total += item
    return total


def left(shard: Shard) -> None:
    """Keep the sum as a result, behind the last item."""
    shard.ok(returned(shard))


BAD: set[int] = set()
forms = pytest.mark.parametrize("process", [returned, left])


@pytest.fixture(autouse=True)
def _bad() -> Any:
    yield
    BAD.clear()


def values(writer: StepList) -> list[Any]:
    """Return all results of a shard, and what was returned at its end."""
    last = [codec.decode(one.result) for one in writer.steps if one.result]
    return [*results(writer), *last]


@forms
def test_a_shard_in_one_call_has_one_value(process: Callable[[Shard], Any]) -> None:
    """Nothing is run twice."""
    _, writer = run(process)
    step = writer.steps[-1]
    assert (values(writer), step.retry, step.returned) == ([450], None, 10)


@forms
@pytest.mark.parametrize("bad", [{50}, {0}, {90}, {20, 50, 90}, {0, 10}])
def test_items_of_a_call_that_raised_are_run_again(
    process: Callable[[Shard], Any], bad: set[int]
) -> None:
    """Without those that failed, in one call: the sum is that of what is done."""
    BAD.update(bad)
    _, writer = run(process)
    step = writer.steps[-1]
    well = tuple(n for n in range(10) if 10 * n not in bad)
    if bad in ({0}, {0, 10}):
        assert (step.retry, values(writer)) == (None, [450 - sum(bad)])
        return
    assert step.retry == (well, 0.0)
    assert (step.forget, values(writer)) == (True, [])
    assert (step.status, step.done, step.failed) == (Code.SUCCEEDED, 0, len(bad))
    picks = record(len(well), origin=7, shard=8, attempt=1, picks=[*well])
    _, writer = run(process, given=picks, items=[10 * n for n in well])
    assert values(writer) == [450 - sum(bad)]


@forms
def test_what_an_earlier_process_had_is_run_again(
    process: Callable[[Shard], Any],
) -> None:
    """It was killed: what its call would have returned is lost."""
    half = record(10, cursor=6, done=5, failed=1, ahead=10)
    _, writer = run(process, given=half, failed={3})
    step = writer.steps[-1]
    assert step.retry == ((0, 1, 2, 4, 5, 6, 7, 8, 9), 0.0)
    assert (step.forget, step.done, step.failed) == (True, 0, 1)


@forms
@pytest.mark.parametrize("stop", [Stop.PAUSED, Stop.SHUTDOWN, Stop.CROWDED])
def test_a_part_that_was_given_back_has_a_value_of_its_own(
    process: Callable[[Shard], Any], stop: Stop
) -> None:
    """Its call returned; nothing of it is run again."""
    _, writer = run(process, writer=Told(4, stop))
    step = writer.steps[-1]
    assert (values(writer), step.returned) == ([60], 4)
    rest = record(10, cursor=4, done=4, returned=4, ahead=10)
    _, writer = run(process, given=rest)
    assert (values(writer), writer.steps[-1].retry) == ([390], None)


@pytest.mark.parametrize("cursor", [6, 10])
def test_without_values_nothing_is_run_again(cursor: int) -> None:
    """After a death, and after an item that failed: the last one, too."""
    begun = record(10, cursor=cursor, done=cursor, ahead=10)
    _, writer = run(double, given=begun)
    assert (writer.steps[-1].retry, writer.steps[-1].forget) == (None, False)
    calls: list[int] = []

    def last(shard: Shard) -> None:
        calls.append(shard.cursor)
        for item in shard:
            shard.ok(1 // (90 - item))

    _, writer = run(last)
    step = writer.steps[-1]
    assert (step.retry, step.done, step.failed) == (None, 9, 1)
    assert calls == [0, 10]  # the second has no item: what does it return?


def test_a_shard_that_fails_as_a_whole_runs_what_was_done_again() -> None:
    """What the call before would have returned is in no sum."""

    def process(shard: Shard) -> int:
        if shard.cursor:
            message = "away"
            raise OSError(message)
        for item in shard:
            if item == 50:
                raise ValueError(item)
        return 1

    _, writer = run(process, returns=True)
    step = writer.steps[-1]
    assert (step.status, step.retry) == (Code.FAILED, ((0, 1, 2, 3, 4), 0.0))
    assert (step.done, step.failed) == (0, 5)


def test_a_call_with_no_item_left_that_raises_undoes_what_is_not_confirmed() -> None:
    """Nobody knows what the call before it would have returned."""

    def process(shard: Shard) -> int:
        total: int = sum(1 // (90 - item) for item in shard)
        return 1 // total

    _, writer = run(process)
    step = writer.steps[-1]
    assert (step.done, step.failed, step.retry) == (0, 10, None)


def test_items_are_not_run_again_without_end() -> None:
    """A value that is lost each time fails the shard."""
    BAD.add(50)
    _, writer = run(returned, given=record(10, attempt=100))
    step = writer.steps[-1]
    assert (step.status, step.retry, places(writer)) == (Code.FAILED, None, [5, -1])


def test_what_cannot_be_named_fails_the_shard() -> None:
    """Of an older version's shard nobody may know which items failed."""
    _, writer = run(returned, given=record(10, cursor=6, done=5, failed=1))
    step = writer.steps[-1]
    assert step.status is Code.FAILED
    assert "did not return" in step.failures[-1].message


@pytest.mark.parametrize("batch", [1, 4])
def test_a_batch_has_its_value_or_is_run_again_anyway(batch: int) -> None:
    """Its items end with the call that returned for them."""
    BAD.add(50)
    half = record(10, cursor=2, done=2, returned=2)
    _, writer = run(returned, given=half, batch=batch, on_error=Retry(1))
    step = writer.steps[-1]
    assert step.retry == ((5,), 1.0)
    assert sum(values(writer)) == 450 - 10 - 50


def test_a_job_in_the_caller_has_the_same_sum() -> None:
    """What was kept of the shard before is dropped there, too."""
    BAD.update({20, 90})
    outcomes = ItemOutcomes(Options())
    outcomes.begin([Planned(layer=0, count=10)])
    shard = record(10)
    _, writer = run(returned, given=shard)
    outcomes.take(shard, writer.steps)
    (again,) = outcomes.retry_shards(shard, writer.steps)
    _, writer = run(returned, given=again, items=[10 * n for n in again.picks or ()])
    outcomes.take(again, writer.steps)
    assert sum(outcomes.results()) == 340
    assert outcomes.counts() == {"total": 10, "done": 8, "failed": 2}
    outcomes.check_failed()
