"""Jobs whose code raises, or hangs, while it has no item in hand."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery
from celery.exceptions import WorkerTerminate

from celery_pecker.testing import eventually
from celery_sharding.ledger import Ledger, at
from celery_sharding.model import Code
from celery_sharding.policies import FailFast, Isolate, Retry
from celery_sharding.runner import Shard, hold_renewal, work
from celery_sharding.runner.holding import Holding
from celery_sharding.runner.shard_worker import executor_of, register_process
from tests.integration.sharding.runner.looks import rows, seq, shards

Register = Callable[..., Any]
Planner = Callable[..., Any]
LONG = 30.0
DECIDED = "select stage, outcome, error ->> 'message' from pecker_jobs"
ITEMS = "select sum(done), sum(failed) from pecker_layers"


@pytest.fixture(params=[True, False], ids=["written", "unwritten"])
def _written(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cursor is written at once, or none before the end."""
    if request.param:
        monkeypatch.setattr(Holding, "due", 0.0)


@pytest.mark.usefixtures("_written")
@pytest.mark.parametrize("policy", [Isolate(max_failed="5%"), FailFast()])
def test_a_job_whose_calls_all_raise_fails(
    app: Celery, ledger: Ledger, register: Register, planned: Planner, policy: Any
) -> None:
    """By its items: none of them was worked on, though all had been asked for."""

    def process(shard: Shard) -> None:
        asked = sum(1 for _ in shard)
        raise ValueError(asked)

    register(process)
    ready = planned(((20, 20),), on_error=policy)
    work(app, ready.job, 1, 0)
    ((stage, outcome, message),) = rows(ledger, DECIDED)
    assert (stage, outcome) == ("delivering", "failed")
    assert "0 of 40 items failed" in message
    ((done, failed),) = rows(ledger, ITEMS)
    assert (done, failed % 20) == (0, 0)


@pytest.mark.usefixtures("_written")
def test_what_a_call_left_undone_is_tried_again(
    app: Celery, ledger: Ledger, register: Register, planned: Planner
) -> None:
    """As often as the policy says, each item once in the end."""
    stored: list[int] = []

    def process(shard: Shard) -> None:
        rows = list(shard)
        if shard.attempt < 3:
            raise ValueError(len(rows))
        stored.extend(rows)

    register(process)
    ready = planned(((5, 5),), on_error=Retry(2, backoff=0.0))
    work(app, ready.job, 1, 0)
    assert sorted(stored) == [*range(10)]
    assert rows(ledger, ITEMS) == [(10, 0)]
    assert rows(ledger, DECIDED) == [("posting", None, None)]


@pytest.mark.usefixtures("_written")
def test_work_that_a_shard_s_deadline_ends_has_failed(
    app: Celery, ledger: Ledger, register: Register, planned: Planner
) -> None:
    """Its items had been asked for, and were worked on when the time was over."""
    register_process(app, "here", "solo")

    def process(shard: Shard) -> None:
        list(shard)
        threading.Event().wait(LONG)

    register(process)
    ready = planned(((3,),), shard_deadline=1.0)
    work(app, ready.job, 1, 0)
    assert shards(ledger, ready.job) == [(Code.TIMED_OUT, 0, 0, 3)]


@pytest.mark.usefixtures("_written")
@pytest.mark.parametrize("policy", [None, Retry(1, backoff=60.0)])
def test_work_that_hangs_with_no_item_in_hand_has_failed(
    app: Celery,
    ledger: Ledger,
    register: Register,
    planned: Planner,
    monkeypatch: pytest.MonkeyPatch,
    policy: Retry | None,
) -> None:
    """A thread that nobody can interrupt is done without, and so are its items."""
    register_process(app, "here", "threads")
    monkeypatch.setattr(hold_renewal, "GRACE", 0.1)
    wakes = threading.Event()

    def process(shard: Shard) -> None:
        list(shard)
        wakes.wait(LONG)

    def run() -> None:
        work(app, ready.job, 1, 0)
        at(app).close()

    register(process)
    ready = planned(((10,),), item_timeout=0.2, on_error=policy)
    hangs = threading.Thread(target=run)
    hangs.start()
    ended = "select 1 from pecker_shards where shard = 0 and status in (203, 301)"
    eventually(lambda: rows(ledger, ended) != [], 30.0, "the shard was taken from it")
    wakes.set()
    hangs.join(LONG)
    if policy is None:
        assert shards(ledger, ready.job) == [(Code.TIMED_OUT, 0, 0, 10)]
    else:
        assert shards(ledger, ready.job) == [
            (Code.SUCCEEDED, 10, 0, 0),
            (Code.WAITING, 0, 0, 0),
        ]


@pytest.mark.usefixtures("_written")
def test_what_an_ended_process_had_not_confirmed_is_run_again(
    app: Celery, ledger: Ledger, register: Register, planned: Planner
) -> None:
    """Whatever the policy: it has not failed, also before an item that is confirmed."""
    attempts: list[list[int]] = []

    def process(shard: Shard) -> None:
        asked: list[int] = []
        attempts.append(asked)
        for item in shard:
            asked.append(item)
            if item == 4:
                shard.ok(item)
        if len(attempts) == 1:
            raise WorkerTerminate(0)

    register(process)
    ready = planned(((10,),), on_error=Isolate())
    with pytest.raises(WorkerTerminate):
        work(app, ready.job, 1, 0)
    ledger.tickets.end_holds_of(executor_of(app).prefix(os.getpid()))
    work(app, ready.job, 1, seq(ledger, ready.job))
    assert rows(ledger, ITEMS) == [(10, 0)]
    assert attempts == [[*range(10)], [5, 6, 7, 8, 9], [0, 1, 2, 3]]
