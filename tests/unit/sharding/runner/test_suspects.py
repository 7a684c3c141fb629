"""Items that kill, and items that nobody could read."""

from __future__ import annotations

import pytest

from celery_sharding.model import Code
from celery_sharding.runner import Shard, StepList
from celery_sharding.sources import Unreadable
from tests.unit.sharding.runner.lists import places, record, results, run


@pytest.mark.parametrize("batch", [None, 4])
def test_a_suspect_is_written_down_before_it_is_begun(batch: int | None) -> None:
    """A processor that dies leaves `ahead` behind it."""
    begun: list[int] = []
    writer = StepList()

    def process(shard: Shard) -> None:
        for item in shard:
            assert writer.steps[-1].ahead > item // 10
            begun.append(item)

    run(process, writer=writer, given=record(10, deaths=2), batch=batch)
    assert len(begun) == 10


def test_one_of_many_that_were_in_hand_runs_at_once() -> None:
    """A process died over a thousand short shards: all but one are innocent."""
    writer = StepList()
    run(lambda shard: [*shard] and None, writer=writer, given=record(10, deaths=1))
    assert [step.status for step in writer.steps] == [Code.SUCCEEDED]


def test_who_is_guilty_of_deaths_is_recorded_and_not_run() -> None:
    """An item; or the shard as a whole, where it dies before it begins one."""
    seen: list[int] = []
    process = seen.append
    poison = record(10, cursor=4, done=4, deaths=3, ahead=5)
    _, writer = run(lambda shard: [*map(process, shard)] and None, given=poison)
    assert seen == [50, 60, 70, 80, 90]
    step = writer.steps[-1]
    assert (step.status, step.done, step.failed) == (Code.SUCCEEDED, 9, 1)
    told = [one for step in writer.steps for one in step.failures]
    assert [(one.code, one.place) for one in told] == [(Code.DIED, 4)]
    _, writer = run(lambda _: 1 / 0, given=record(10, deaths=4, ahead=0))
    (step,) = writer.steps
    assert (step.status, step.failed) == (Code.DIED, 10)
    assert [(one.code, one.place) for one in step.failures] == [(Code.DIED, -1)]


@pytest.mark.parametrize("batch", [None, 3, 1])
def test_what_a_source_could_not_read_fails_without_a_call(batch: int | None) -> None:
    """Wherever in the shard it lies."""
    broken = Unreadable("x", "it is no JSON")
    items = [broken, 1, 2, broken, broken, 5, broken]

    def process(shard: Shard) -> None:
        for item in shard:
            shard.ok(item)

    _, writer = run(process, 7, items=items, batch=batch)
    assert (results(writer), places(writer)) == ([1, 2, 5], [0, 3, 4, 6])
    told = next(one for step in writer.steps for one in step.failures)
    assert (told.type, told.message) == ("Unreadable", "it is no JSON")
    assert (writer.steps[-1].done, writer.steps[-1].failed) == (3, 4)
