"""Where tickets of placed shards lie, and what a worker does with one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from celery import Celery

from celery_pecker.kernel.clock import pause
from celery_sharding import Shard, Sharding, flow, pace
from celery_sharding.ledger import Ledger, at
from celery_sharding.messages import queues_of, to_worker
from celery_sharding.runner import work
from celery_sharding.runner.shard_worker import register_process
from tests.integration.sharding.placement.conftest import Owners, Placed

Lying = Callable[[str], int]
TASK = "proj.import_rows"
SLICE = 0.05


@pytest.fixture
def ledger(app: Celery) -> Ledger:
    """Give this thread's ledger of the app: by the database's own time."""
    return at(app)


@pytest.fixture
def app(
    dsn: str, redis_url: str, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Celery]:
    """Give the app of the worker "a"; nobody takes its messages."""
    made = Celery("placed", broker=redis_url, set_as_current=False)
    made.conf.update(pecker_dsn=dsn, task_default_queue=queue_name, worker_direct=True)
    monkeypatch.setattr(pace, "SLICE", SLICE)
    Sharding(made)
    register_process(made, "a", "solo")
    yield made
    at(made).close()
    made.close()


@pytest.fixture
def lying(redis_url: str) -> Iterator[Lying]:
    """Give a function that tells how many messages lie in a queue."""
    with redis.Redis.from_url(redis_url) as client:
        yield lambda queue: int(client.llen(queue))


def known(app: Celery, process: Callable[[Shard], None]) -> None:
    """The app knows the task of the tests' jobs."""
    sharding: Any = Sharding(app)  # the one that it has
    sharding.task(name=TASK, placement="even")(process)


def double(shard: Shard) -> None:
    """Give each item twice as large."""
    for item in shard:
        shard.ok(2 * item)


def test_a_turn_ends_with_a_ticket_for_who_has_open_shards(
    app: Celery, ledger: Ledger, placed: Placed, lying: Lying, queue_name: str
) -> None:
    """At once, in that worker's own queue; the common one has none."""
    known(app, double)
    for one in "ab":
        ledger.upkeep.record_worker(
            one, 1, f"{one}.dq", queues=[queue_name, f"{one}.dq"]
        )
    job = placed(["a", "b"], concurrency=1)
    flow.advance_job(app, ledger, job)
    assert (lying("a.dq"), lying("b.dq"), lying(queue_name)) == (1, 0, 0)
    assert work(app, job, 1, 0) == "end"
    assert (lying("a.dq"), lying("b.dq"), lying(queue_name)) == (1, 1, 0)


def test_at_the_end_of_a_slice_it_comes_to_the_same_worker_again(
    app: Celery, ledger: Ledger, placed: Placed, lying: Lying, queue_name: str
) -> None:
    """Behind what waits there; not in the common queue, where others take it."""

    def slow(shard: Shard) -> None:
        pause(2 * SLICE)
        double(shard)

    known(app, slow)
    ledger.upkeep.record_worker("a", 1, "a.dq", queues=[queue_name, "a.dq"])
    job = placed(["a"] * 50, concurrency=1)
    flow.advance_job(app, ledger, job)
    work(app, job, 1, 0)
    left = ledger.database._connected().execute(
        "select count(*) from pecker_shards where status = 100"
    )
    assert left.fetchone() != (0,)
    assert (lying("a.dq"), lying(queue_name)) == (2, 0)


def test_shards_of_a_worker_that_does_not_know_the_task_are_for_any(
    app: Celery, ledger: Ledger, placed: Placed, owners: Owners
) -> None:
    """They would wait for it for ever."""
    job = placed(["a", "b", "a"])
    assert work(app, job, 1, 0) == "unknown here"
    assert owners(job) == [None, "b", None]


def test_the_queues_of_a_job_are_told_from_its_route(
    app: Celery, queue_name: str
) -> None:
    """By name, by exchange and key; unknown where nobody declared them."""
    assert queues_of(app, TASK, {}) == [queue_name]
    assert queues_of(app, TASK, {"queue": "other"}) == ["other"]
    assert queues_of(app, TASK, {"queue": "other"}, "asked") == ["asked"]
    named = app.amqp.queues[queue_name]
    told = {"exchange": named.exchange.name, "routing_key": named.routing_key}
    assert queues_of(app, TASK, told) == [queue_name]
    assert queues_of(app, TASK, {"exchange": "x", "routing_key": "y"}) is None


def test_the_way_to_a_worker_keeps_priority_and_declares_nothing() -> None:
    """Declared with other arguments than its own, a queue would be refused."""
    route = to_worker(
        {"exchange": "x", "routing_key": "y", "priority": 3, "queue": "q"}, "a.dq"
    )
    assert {*route} == {"queue", "declare", "priority"}
    assert (route["queue"].name, route["declare"]) == ("a.dq", [])
