"""What a processor returns, summed up behind deaths, pauses and bad items."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery
from celery.exceptions import WorkerTerminate

from celery_sharding import codec
from celery_sharding.ledger import Ledger
from celery_sharding.model import Code
from celery_sharding.runner import Shard, work
from celery_sharding.runner.holding import Holding
from celery_sharding.runner.shard_worker import executor_of
from tests.integration.sharding.runner.looks import rows, seq, shards

Register = Callable[..., Any]
Planner = Callable[..., Any]
BAD = 7


class Killed(WorkerTerminate):
    """The process is no more: raised from another error, it writes nothing."""


class Total:
    """Adds items up, and does something once at one of them."""

    def __init__(self, at: int, act: Callable[[], None]) -> None:
        self.at, self.act = at, act

    def process(self, shard: Shard) -> int:
        """Return the sum of the items of a call; one of them is bad."""
        total = 0
        for item in shard:
            if item == self.at:
                self.at = -1
                self.act()
            if item == BAD:
                raise ValueError(item)
            total += item
            shard.ok("seen")
        return total


def killed() -> None:
    """Leave nothing but what was written."""
    raise Killed from RuntimeError()


def values(ledger: Ledger, job: int) -> list[Any]:
    """Return all results of a job."""
    found = rows(ledger, "select at, body from pecker_results where job = %s", job)
    decoded = [(at, codec.decode(bytes(body))) for at, body in found]
    return [v for at, body in decoded for v in ([body] if at == -1 else body)]


def total(ledger: Ledger, job: int) -> int:
    """Return the sum; each item that is done has its own result beside it."""
    found = values(ledger, job)
    ((done, failed),) = rows(ledger, "select sum(done), sum(failed) from pecker_layers")
    assert (done, failed) == (19, 1)
    assert found.count("seen") == done
    return sum(value for value in found if value != "seen")


@pytest.mark.parametrize("at", [3, 9, 12, 19])
def test_a_sum_is_right_behind_a_death_and_a_bad_item(
    app: Celery,
    ledger: Ledger,
    register: Register,
    planned: Planner,
    monkeypatch: pytest.MonkeyPatch,
    at: int,
) -> None:
    """What was lost with a call is run again; and its results are there once."""
    monkeypatch.setattr(Holding, "due", 0.0)
    register(Total(at, killed).process)
    ready = planned(((10, 10),))
    with pytest.raises(Killed):
        work(app, ready.job, 1, 0)
    ledger.tickets.end_holds_of(executor_of(app).prefix(os.getpid()))
    work(app, ready.job, 1, seq(ledger, ready.job))
    assert total(ledger, ready.job) == sum(range(20)) - BAD


def test_a_part_that_was_paused_is_not_run_again(
    app: Celery,
    ledger: Ledger,
    register: Register,
    planned: Planner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its call returned, and its value is kept with the cursor."""
    monkeypatch.setattr(Holding, "due", 0.0)

    def pause() -> None:
        rows(ledger, "update pecker_jobs set paused = true returning 1")

    register(Total(14, pause).process)
    ready = planned(((10, 10),))
    assert work(app, ready.job, 1, 0) == "paused"
    assert shards(ledger, ready.job)[1] == (Code.WAITING, 5, 5, 0)
    rows(ledger, "update pecker_jobs set paused = false returning 1")
    work(app, ready.job, 1, seq(ledger, ready.job))
    assert total(ledger, ready.job) == sum(range(20)) - BAD
    assert rows(ledger, "select origin from pecker_shards where origin = 1") == [(1,)]
