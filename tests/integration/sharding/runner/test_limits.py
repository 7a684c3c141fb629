"""Items and shards that take too long, and threads that do not come back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery

from celery_pecker.testing import eventually
from celery_sharding import pace
from celery_sharding.ledger import Ledger, at
from celery_sharding.model import Code
from celery_sharding.runner import Shard, Stop, hold_renewal, work
from celery_sharding.runner.shard_worker import register_process
from tests.integration.sharding.runner.looks import results, rows, shards

Register = Callable[..., Any]
Planner = Callable[..., Any]
LONG = 30.0


def errors(ledger: Ledger) -> list[tuple[Any, ...]]:
    """Return shard, place, code and type of what failed."""
    return rows(
        ledger,
        "select shard, place, code, type from pecker_item_errors order by 1, 2",
    )


@pytest.mark.parametrize("batch", [None, 4])
def test_an_item_that_takes_too_long_is_struck_and_alone_reported(
    app: Celery,
    ledger: Ledger,
    register: Register,
    planned: Planner,
    batch: int | None,
) -> None:
    """Where the pool can interrupt code; its shard goes on."""
    register_process(app, "here", "solo")

    def process(shard: Shard) -> None:
        for item in shard:
            if item == 5:
                threading.Event().wait(LONG)
            shard.ok(item)

    register(process)
    ready = planned(((10,),), item_timeout=0.2, batch=batch)
    work(app, ready.job, 1, 0)
    assert shards(ledger, ready.job) == [(301, 10, 9, 1)]
    kind = "celery_pecker.deadline.budget.DeadlineExceeded"
    assert errors(ledger) == [(0, 5, Code.TIMED_OUT, kind)]
    assert sorted(results(ledger, ready.job)) == [0, 1, 2, 3, 4, 6, 7, 8, 9]


def test_items_that_are_quick_may_take_longer_together(
    app: Celery,
    ledger: Ledger,
    register: Register,
    planned: Planner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The time is each item's own, also between two writes."""
    register_process(app, "here", "solo")
    monkeypatch.setattr(pace, "FLUSH", 10.0)

    def process(shard: Shard) -> None:
        for item in shard:
            threading.Event().wait(0.1)
            shard.ok(item)

    register(process)
    ready = planned(((8,),), item_timeout=0.5)
    work(app, ready.job, 1, 0)
    assert shards(ledger, ready.job) == [(301, 8, 8, 0)]


@pytest.mark.parametrize("pool", ["solo", "threads"])
def test_a_shard_that_takes_too_long_ends_timed_out(
    app: Celery, ledger: Ledger, register: Register, planned: Planner, pool: str
) -> None:
    """In the middle of an item, or at the next; the rest of it failed with it."""
    register_process(app, "here", pool)

    def process(shard: Shard) -> None:
        for item in shard:
            threading.Event().wait(0.05 if pool == "threads" or item < 4 else LONG)

    register(process)
    ready = planned(((200, 2),), shard_deadline=0.5)
    work(app, ready.job, 1, 0)
    (first, second) = shards(ledger, ready.job)
    assert first[0] == Code.TIMED_OUT
    assert 4 <= first[1] < 20
    assert first[2] + first[3] == 200
    assert errors(ledger)[0][:3] == (0, -1, Code.TIMED_OUT)
    assert second[0] in {Code.SUCCEEDED, Code.TIMED_OUT}


def test_the_job_s_deadline_ends_its_slices(
    app: Celery, ledger: Ledger, register: Register, planned: Planner
) -> None:
    """The shard is given back; what becomes of the job others decide."""
    register_process(app, "here", "solo")

    def process(shard: Shard) -> None:
        for item in shard:
            if item == 3:
                threading.Event().wait(LONG)

    register(process)
    ready = planned(((10,),), deadline=1.5)
    assert work(app, ready.job, 1, 0) == "over"
    assert shards(ledger, ready.job) == [(Code.WAITING, 3, 3, 0)]
    assert errors(ledger) == []


def test_a_thread_that_hangs_is_done_without(
    app: Celery,
    ledger: Ledger,
    register: Register,
    planned: Planner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its item has failed, the rest goes on; when it wakes it writes nothing."""
    register_process(app, "here", "threads")
    monkeypatch.setattr(hold_renewal, "GRACE", 0.1)
    wakes, said, seen = threading.Event(), [], []

    def process(shard: Shard) -> None:
        for item in shard:
            seen.append(item)
            if item == 4:
                wakes.wait(LONG)
            shard.ok(item)

    def run(seq: int) -> None:
        said.append(work(app, ready.job, 1, seq))
        at(app).close()

    register(process)
    ready = planned(((10, 5),), item_timeout=0.2)
    hangs = threading.Thread(target=run, args=(0,))
    hangs.start()
    free = "select seq from pecker_tickets where ticket = 1 and state <> 'held'"
    eventually(lambda: seen[4:] and rows(ledger, free) != [], 30.0, "it is free")
    assert shards(ledger, ready.job)[0] == (Code.WAITING, 5, 4, 1)
    assert errors(ledger)[0][:3] == (0, 4, Code.TIMED_OUT)
    other = threading.Thread(target=run, args=rows(ledger, free)[0])
    other.start()
    other.join(LONG)
    assert shards(ledger, ready.job) == [(301, 10, 9, 1), (301, 5, 5, 0)]
    before = results(ledger, ready.job)
    wakes.set()
    hangs.join(LONG)
    assert said[-1] == Stop.LOST
    assert results(ledger, ready.job) == before
    assert [item for item in seen if item == 5] == [5]
