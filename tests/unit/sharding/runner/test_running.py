"""One shard over lists: what is given, and when it ends."""

from __future__ import annotations

import pytest

from celery_sharding import codec
from celery_sharding.model import Code
from celery_sharding.runner import Shard, Stop
from tests.unit.sharding.runner.lists import Told, double, places, record, results, run


def test_a_shard_ends_well_in_one_step() -> None:
    """No write lies between its items."""
    stop, writer = run(double)
    assert stop is Stop.END
    (step,) = writer.steps
    assert (step.status, step.cursor, step.done, step.failed) == (
        Code.SUCCEEDED,
        10,
        10,
        0,
    )
    assert results(writer) == [20 * index for index in range(10)]


def test_a_shard_goes_on_from_its_cursor() -> None:
    """Items that had ended are not given again, and still count."""
    _, writer = run(double, given=record(10, cursor=6, done=5, failed=1))
    assert results(writer) == [120, 140, 160, 180]
    assert (writer.steps[-1].done, writer.steps[-1].failed) == (9, 1)


def test_each_calls_a_function_with_each_item() -> None:
    """Its failures do not end the call."""
    calls = []

    def process(shard: Shard) -> None:
        calls.append(1)
        shard.each(lambda item: 100 // (item - 40))

    _, writer = run(process)
    assert (places(writer), len(calls)) == ([4], 1)
    assert len(results(writer)) == 9


@pytest.mark.parametrize("stop", [Stop.PAUSED, Stop.SHUTDOWN, Stop.OVER, Stop.CROWDED])
def test_a_shard_that_is_told_to_stop_is_given_back(stop: Stop) -> None:
    """No item is begun after it was told; what it returned so far counts."""

    def process(shard: Shard) -> int:
        return sum(1 for _ in shard)

    said, writer = run(process, writer=Told(4, stop))
    assert said is stop
    assert writer.steps[-1].status is Code.WAITING
    assert writer.steps[-1].cursor == 4
    assert results(writer) == [4]


def test_what_stops_right_after_a_write_still_gives_what_it_returned() -> None:
    """In the step that gives it back."""

    def process(shard: Shard) -> str:
        double(shard)
        return "part"

    _, writer = run(process, writer=Told(2))
    assert results(writer) == [0, 20, "part"]


def test_a_lost_ticket_writes_nothing_more() -> None:
    """Not even that it is lost."""
    said, writer = run(double, writer=Told(4, Stop.LOST))
    assert said is Stop.LOST
    assert [one.status for one in writer.steps] == [Code.RUNNING] * 4 + [Code.RUNNING]
    assert writer.steps[-1].cursor == 4


def test_a_processor_that_returns_early_is_called_for_the_rest() -> None:
    """What it returns each time counts."""

    def process(shard: Shard) -> list[int]:
        taken = []
        for item in shard:
            taken.append(item)
            if len(taken) == 4:
                break
        return taken

    _, writer = run(process)
    assert results(writer) == [[0, 10, 20, 30], [40, 50, 60, 70]]
    assert writer.steps[-1].result is not None
    assert codec.decode(writer.steps[-1].result) == [80, 90]


def test_an_empty_shard_ends_without_a_call() -> None:
    """There is nothing to give."""
    stop, writer = run(lambda _: 1 / 0, 0)
    assert (stop, writer.steps[-1].status) == (Stop.END, Code.SUCCEEDED)


def test_a_shard_whose_end_was_not_written_ends_without_a_call() -> None:
    """All its items have ended."""
    _, writer = run(lambda _: 1 / 0, given=record(10, cursor=10, done=9, failed=1))
    step = writer.steps[-1]
    assert (step.status, step.done, step.failed) == (Code.SUCCEEDED, 9, 1)
