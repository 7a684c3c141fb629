"""What is told of jobs whose rows the ledger wrote."""

from __future__ import annotations

from collections.abc import Callable

from celery_sharding.codec import encode
from celery_sharding.ledger import Ledger
from celery_sharding.model import Code, Outcome, Stage, Step
from celery_sharding.overview import State, take_snapshot
from tests.integration.sharding.conftest import Planner, Time
from tests.integration.sharding.ledger.test_shards import (
    LEASE,
    claim,
    done,
    failure,
    holding,
    write,
)


def codes(ledger: Ledger, job: int) -> list[Code]:
    """Return the codes of all shards, by their number."""
    in_grid = [
        code
        for line in sorted(ledger.reading.grid(job).lines, key=lambda line: line.first)
        for code, length in line.runs()
        for _ in range(length)
    ]
    assert in_grid == [row.code for row in ledger.reading.shards(job)]
    return in_grid


def test_a_job_is_followed_from_its_plan_to_its_end(
    ledger: Ledger, planned: Planner, time: Time
) -> None:
    """Claimed, run, lost with its worker, claimed anew, done."""
    ready = planned(((10, 10, 10), (5,)))
    reading = ledger.reading
    waits, free = Code.WAITING, Code.READY
    assert codes(ledger, ready.job) == [free, free, free, waits]
    assert take_snapshot(ledger, ready.task_id).verdict.state is State.STARVED
    hold = holding(ledger, ready.job)
    first, second = claim(ledger, hold, 2)
    assert codes(ledger, ready.job) == [Code.RUNNING, Code.PUSHED, free, waits]
    assert take_snapshot(ledger, ready.task_id).verdict.state is State.RUNNING
    time.step(1)
    bad = failure(second, 2)
    write(
        ledger,
        hold,
        done(first, results=encode(["a", "b"])),
        Step(shard=second.shard, cursor=3, ahead=10, done=2, failed=1, failures=(bad,)),
    )
    assert codes(ledger, ready.job) == [Code.SUCCEEDED, Code.RUNNING, free, waits]
    told = reading.progress(ready.task_id)
    assert (told.done, told.failed, told.total) == (12, 1, 35)
    assert [(one.done, one.failed, one.open) for one in told.layers] == [
        (12, 1, 2),
        (0, 0, 1),
    ]
    assert told.rate > 0
    time.step(LEASE + 1)
    assert codes(ledger, ready.job) == [Code.SUCCEEDED, Code.DIED, free, waits]
    assert ledger.tickets.end_expired() == [ready.job]
    assert codes(ledger, ready.job) == [Code.SUCCEEDED, free, free, waits]
    again = reading.progress(ready.task_id)
    assert (again.done, again.failed) == (12, 1), "what was written is not lost"
    assert [*reading.each_result(ready.task_id)] == ["a", "b"]
    ((error),) = reading.each_error(ready.task_id)
    assert (error.shard, error.place, error.code) == (1, bad.place, Code.FAILED)


def test_control_is_seen_at_once(
    ledger: Ledger, planned: Planner, submitted: Callable[..., str]
) -> None:
    """Paused, resumed, cancelled; a job that is only submitted is told too."""
    ready = planned(((10, 10),))
    control = ledger.control
    control.pause(ready.task_id)
    assert take_snapshot(ledger, ready.task_id).verdict.state is State.PAUSED
    control.resume(ready.task_id)
    control.options(ready.task_id, concurrency=7)
    assert ledger.reading.job(ready.task_id).concurrency == 7
    control.cancel(ready.task_id)
    row = ledger.reading.job(ready.task_id)
    assert (row.stage, row.outcome) == (Stage.DELIVERING, Outcome.CANCELLED)
    assert codes(ledger, ready.job) == [Code.WAITING, Code.WAITING]
    seen = take_snapshot(ledger, submitted())
    assert seen.verdict.state is State.SUBMITTED
    assert (seen.layers, seen.grid.lines, seen.errors) == ([], (), [])
