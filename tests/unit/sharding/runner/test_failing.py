"""Items, batches and shards that fail."""

from __future__ import annotations

import pytest

from celery_sharding import codec
from celery_sharding.model import Code
from celery_sharding.policies import FailFast, Retry
from celery_sharding.runner import Shard, Stop
from tests.unit.sharding.runner.lists import double, places, record, results, run


def test_what_is_raised_is_the_failure_of_the_item_in_hand() -> None:
    """The shard goes on after it, and its values do not count."""

    def process(shard: Shard) -> None:
        for item in shard:
            shard.ok(item)
            if item in {30, 90}:
                message = f"no {item}"
                raise ValueError(message)

    _, writer = run(process)
    (step,) = writer.steps
    assert (step.status, step.done, step.failed) == (Code.SUCCEEDED, 8, 2)
    assert results(writer) == [0, 10, 20, 40, 50, 60, 70, 80]
    told = step.failures[0]
    assert (told.place, told.type, told.message) == (3, "ValueError", "no 30")
    assert told.item is not None
    assert codec.decode(told.item) == 30
    assert told.traceback is not None
    assert "celery_sharding/runner" not in told.traceback


def test_fail_goes_on_in_the_same_call() -> None:
    """And raising in the same item says why instead."""
    calls = []

    def process(shard: Shard) -> None:
        calls.append(shard.cursor)
        for item in shard:
            if item == 20:
                shard.fail("bad")
            if item == 50:
                shard.fail("first")
                message = "then"
                raise KeyError(message)

    _, writer = run(process)
    assert calls == [0, 6]
    told = [one.message for one in writer.steps[0].failures]
    assert told == ["bad", "'then'"]
    assert (writer.steps[0].done, writer.steps[0].failed) == (8, 2)


def test_the_first_failure_ends_the_shard_under_fail_fast() -> None:
    """The rest is not begun."""

    def process(shard: Shard) -> None:
        for item in shard:
            if item >= 30:
                shard.fail("no")

    stop, writer = run(process, on_error=FailFast())
    assert stop is Stop.FAILED
    assert (writer.steps[-1].status, writer.steps[-1].cursor) == (Code.FAILED, 4)
    assert places(writer) == [3]


def test_what_is_tried_again_counts_neither_as_done_nor_as_failed() -> None:
    """Until its last attempt."""

    def process(shard: Shard) -> None:
        shard.each(lambda item: 1 // (item % 40))

    _, writer = run(process, on_error=Retry(1, backoff=3.0))
    step = writer.steps[-1]
    assert step.retry == ((0, 4, 8), 3.0)
    assert (step.done, step.failed, places(writer)) == (7, 0, [0, 4, 8])
    half = record(10, cursor=5, done=3, ahead=10)
    _, writer = run(process, on_error=Retry(1), given=half, again=[0, 4])
    step = writer.steps[-1]
    assert (step.retry, step.done) == (((0, 4, 8), 1.0), 7)
    picks = record(10, origin=2, attempt=1, picks=[5 * n for n in range(10)])
    _, writer = run(process, on_error=Retry(1), given=picks)
    step = writer.steps[-1]
    assert (step.retry, step.done, step.failed) == (None, 7, 3)
    assert places(writer) == [0, 20, 40]
    assert step.mended == tuple((2, 5 * n) for n in range(10) if n % 4)


def test_what_asks_for_it_is_tried_again_whatever_the_policy() -> None:
    """After the longest of the times that were asked for; it ends no shard."""

    def process(shard: Shard) -> None:
        for item in shard:
            if item in {20, 40}:
                shard.retry("not yet", after=item / 10)
            assert shard.item_id == f"j-7-{item // 10}"

    for policy in (None, FailFast(), Retry(1)):
        _, writer = run(process, on_error=policy)
        step = writer.steps[-1]
        assert (step.retry, step.done, step.failed) == (((2, 4), 4.0), 8, 0)
    _, writer = run(process, given=record(10, attempt=1_000))
    step = writer.steps[-1]
    assert (step.retry, step.done, step.failed) == (None, 8, 2)


def test_what_is_raised_outside_of_items_fails_the_shard_as_a_whole() -> None:
    """Before the first item, or after the last."""

    def before(shard: Shard) -> None:
        raise OSError

    def after(shard: Shard) -> None:
        double(shard)
        raise OSError

    _, writer = run(before)
    assert (writer.steps[-1].status, places(writer)) == (Code.FAILED, [-1])
    assert writer.steps[-1].cursor == 0
    _, writer = run(after)
    assert (writer.steps[-1].status, places(writer)) == (Code.FAILED, [-1])
    assert (writer.steps[-1].done, len(results(writer))) == (10, 10)


def test_a_processor_that_asks_for_no_item_fails_the_shard() -> None:
    """It would be called without end."""
    _, writer = run(lambda _: None)
    assert writer.steps[-1].status is Code.FAILED
    assert "10 are left" in writer.steps[-1].failures[0].message


@pytest.mark.parametrize("bad", [{0}, {9}, {3, 4}, {5}, set(range(10)), set()])
def test_a_batch_is_halved_until_what_fails_is_alone(bad: set[int]) -> None:
    """All else ends well, and once."""
    stored: list[int] = []

    def process(shard: Shard) -> None:
        rows = [item // 10 for item in shard]
        assert 0 < len(rows) <= 4
        if bad & {*rows}:
            raise ValueError(rows)
        stored.extend(rows)
        shard.ok(len(rows))

    _, writer = run(process, batch=4)
    assert sorted(stored) == sorted({*range(10)} - bad)
    assert sorted(places(writer)) == sorted(bad)
    assert sum(results(writer)) == 10 - len(bad)
    assert (writer.steps[-1].done, writer.steps[-1].failed) == (10 - len(bad), len(bad))


def test_a_result_that_is_no_json_fails_its_item() -> None:
    """And no other."""

    def process(shard: Shard) -> None:
        for item in shard:
            shard.ok(object() if item == 50 else item)

    _, writer = run(process)
    step = writer.steps[-1]
    assert (places(writer), step.done, step.failed) == ([5], 9, 1)
    assert len(results(writer)) == 9


def test_a_shard_that_fails_before_its_items_is_tried_again_with_them() -> None:
    """A database that is away for a moment fails no thousand shards."""
    attempts: list[int] = []

    def process(shard: Shard) -> None:
        attempts.append(shard.attempt)
        message = "no connection"
        raise OSError(message)

    first = record(3, lo=4, hi=7)
    _, writer = run(process, 3, on_error=Retry(1, backoff=2.0), given=first)
    (step,) = writer.steps
    assert step.retry == ((4, 5, 6), 2.0)
    assert (step.status, step.cursor, step.done, step.failed) == (301, 3, 0, 0)
    assert step.failures == ()
    last = record(3, lo=4, hi=7, attempt=1)
    _, writer = run(process, 3, on_error=Retry(1), given=last)
    (step,) = writer.steps
    assert (step.status, step.retry, step.failed, places(writer)) == (
        302,
        None,
        3,
        [-1],
    )


def test_a_failure_without_an_item_in_hand_is_the_shard_s() -> None:
    """It is not blamed on an item that ended well."""

    def process(shard: Shard) -> None:
        double(shard)
        shard.fail("what exactly?")

    _, writer = run(process)
    assert (places(writer), writer.steps[-1].status) == ([-1], Code.FAILED)
    assert writer.steps[-1].done == 10


@pytest.mark.parametrize("returned", [True, False])
def test_a_value_of_the_shard_that_is_no_json_is_not_lost_silently(
    returned: bool,
) -> None:
    """The shard says so."""

    def process(shard: Shard) -> object:
        double(shard)
        if returned:
            return object()
        shard.ok(object())
        return None

    _, writer = run(process)
    told = [one for step in writer.steps for one in step.failures]
    assert [one.place for one in told] == [-1 if returned else 9]
    assert told[0].type == "celery_sharding.errors.ItemNotSerializable"
