"""Tickets on a real ledger: what is run, written, and passed on."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery
from celery.exceptions import WorkerTerminate

from celery_sharding import codec
from celery_sharding.ledger import Ledger
from celery_sharding.model import Code, Step
from celery_sharding.plan import cut
from celery_sharding.policies import FailFast, Retry
from celery_sharding.runner import Shard, work
from celery_sharding.runner.holding import Holding
from celery_sharding.runner.result_buffer import of_item
from celery_sharding.runner.shard_worker import executor_of
from celery_sharding.sources import Query
from tests.integration.sharding.runner.conftest import TASK
from tests.integration.sharding.runner.looks import results, rows, seq, shards

Register = Callable[..., Any]
Planner = Callable[..., Any]


def double(shard: Shard) -> None:
    """Give each item twice as large."""
    for item in shard:
        shard.ok(2 * item)


def test_a_ticket_runs_all_shards_of_all_layers(
    app: Celery, ledger: Ledger, register: Register, planned: Planner
) -> None:
    """One by one, in as few writes as their batches."""
    register(double)
    ready = planned(((3, 3, 3), (2,), (4, 1)))
    work(app, ready.job, 1, 0)
    assert shards(ledger, ready.job) == [
        (Code.SUCCEEDED, count, count, 0) for count in (3, 3, 3, 2, 4, 1)
    ]
    assert results(ledger, ready.job) == [2 * item for item in range(16)]
    assert rows(ledger, "select stage from pecker_jobs") == [("posting",)]


def test_a_message_that_comes_twice_runs_nothing(
    app: Celery, ledger: Ledger, register: Register, planned: Planner
) -> None:
    """Its number is a former one."""
    register(double)
    ready = planned()
    work(app, ready.job, 1, 0)
    assert work(app, ready.job, 1, 0) == "not to be had"


def test_failures_stand_in_the_ledger(
    app: Celery, ledger: Ledger, register: Register, planned: Planner
) -> None:
    """With their places in the items of the shard, and the item."""

    def process(shard: Shard) -> None:
        shard.each(lambda item: 1 // (item % 7))

    register(process)
    ready = planned(((10, 10),))
    work(app, ready.job, 1, 0)
    assert shards(ledger, ready.job) == [(301, 10, 8, 2), (301, 10, 9, 1)]
    told = rows(
        ledger,
        "select shard, place, code, attempt, item from pecker_item_errors"
        " order by shard, place",
    )
    assert [one[:4] for one in told] == [
        (0, 0, 302, 1),
        (0, 7, 302, 1),
        (1, 4, 302, 1),
    ]
    assert [codec.decode(bytes(one[4])) for one in told] == [0, 7, 14]


def test_what_fails_is_tried_again_in_a_shard_of_its_own(
    app: Celery, ledger: Ledger, register: Register, planned: Planner
) -> None:
    """And what a later attempt makes good is no error any more."""
    attempts: list[tuple[int, int]] = []

    def process(shard: Shard) -> None:
        for item in shard:
            attempts.append((item, shard.attempt))
            if item in {3, 12} and shard.attempt < 2 + (item == 3):
                shard.fail("not yet")

    register(process)
    ready = planned(((10, 10),), on_error=Retry(1, backoff=0.0))
    work(app, ready.job, 1, 0)
    assert [one for one in attempts if one[1] > 1] == [(3, 2), (12, 2)]
    found = rows(ledger, "select place, shard, attempt from pecker_item_errors")
    assert [(place, attempt) for place, _, attempt in found] == [(3, 2)]
    counts = rows(ledger, "select done, failed, open from pecker_layers")
    assert counts == [(19, 1, 0)]


def test_what_a_dead_holder_was_to_try_again_is_tried_again(
    app: Celery, ledger: Ledger, register: Register, planned: Planner
) -> None:
    """It stood in the memory of who died; the ledger knows what failed."""
    ready = planned(((10,),), on_error=Retry(1, backoff=0.0))
    turn = ledger.tickets.take(
        ready.job, 1, 0, holder="gone:1:a", hostname="gone", lease=60.0
    )
    assert turn is not None
    (record,) = ledger.shards.claim(turn.hold, layer=0, most=1)
    told = of_item(record, 3, 3, "not yet")
    step = Step(shard=0, cursor=5, ahead=10, done=4, failed=0, failures=(told,))
    assert ledger.shards.write(turn.hold, [step], lease=60.0).held
    ledger.tickets.end_holds_of("gone:1:")
    seen: list[tuple[int, int]] = []

    def process(shard: Shard) -> None:
        seen.extend((item, shard.attempt) for item in shard)

    register(process)
    work(app, ready.job, 1, seq(ledger, ready.job))
    assert seen == [*((item, 1) for item in range(5, 10)), (3, 2)]
    assert rows(ledger, "select done, failed, open from pecker_layers") == [(10, 0, 0)]
    assert rows(ledger, "select count(*) from pecker_item_errors") == [(0,)]


def test_the_first_failure_ends_a_job_that_fails_fast(
    app: Celery, ledger: Ledger, register: Register, planned: Planner
) -> None:
    """No further shard is begun."""
    seen: list[int] = []

    def process(shard: Shard) -> None:
        for item in shard:
            seen.append(item)
            if item == 4:
                shard.fail("no")

    register(process)
    ready = planned(((10, 10, 10),), on_error=FailFast())
    work(app, ready.job, 1, 0)
    assert seen == [0, 1, 2, 3, 4]
    told = rows(ledger, "select stage, outcome from pecker_jobs")
    assert told == [("delivering", "failed")]


@pytest.mark.parametrize("what", ["pause", "cancel", "concurrency"])
def test_a_running_shard_hears_at_its_next_item(
    app: Celery,
    ledger: Ledger,
    register: Register,
    planned: Planner,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
) -> None:
    """It is given back as it is, and what it did so far stands."""
    change = {
        "pause": "update pecker_jobs set paused = true",
        "cancel": "update pecker_jobs set stage = 'delivering', outcome = 'cancelled'",
        "concurrency": "update pecker_jobs set concurrency = 1",
    }[what]
    seen: list[int] = []

    def process(shard: Shard) -> None:
        for item in shard:
            shard.ok(item)
            if item == 4:
                rows(ledger, change + " returning 1")
            seen.append(item)

    register(process)
    monkeypatch.setattr(Holding, "due", 0.0)
    ready = planned(((10, 10),), concurrency=2)
    said = work(app, ready.job, 2, 0)
    assert seen == [0, 1, 2, 3, 4]
    assert said == {"pause": "paused", "cancel": "over", "concurrency": "crowded"}[what]
    first = shards(ledger, ready.job)[0]
    assert first == (Code.WAITING, 5, 5, 0)
    assert results(ledger, ready.job) == seen


class Killed(WorkerTerminate):
    """The process is no more: raised from another error, it writes nothing."""


def test_a_row_that_is_deleted_after_planning_fails_alone(
    app: Celery,
    ledger: Ledger,
    register: Register,
    submitted: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each other row is processed once, also where the shard goes on after a death."""
    query = "create table t as select n from generate_series(1, 10) as n"
    ledger.database._connected().execute(query)
    turn = ledger.plans.begin(submitted(task=TASK), "planner:1:a", 15.0)
    assert turn is not None
    source = Query("select n from t", key="n")
    ledger.plans.write(turn, cut(source, turn.options, 1, conf=app.conf))
    seen: list[int] = []

    def process(shard: Shard) -> None:
        for item in shard:
            if item == 6 and 5 in seen[-1:]:
                seen.append(item)
                rows(ledger, "delete from t where n in (2, 8) returning 1")
                raise Killed from RuntimeError()
            seen.append(item)
            shard.ok(item)

    register(process)
    monkeypatch.setattr(Holding, "due", 0.0)
    with pytest.raises(Killed):
        work(app, turn.job, 1, 0)
    ledger.tickets.end_holds_of(executor_of(app).prefix(os.getpid()))
    work(app, turn.job, 1, seq(ledger, turn.job))
    assert results(ledger, turn.job) == [1, 2, 3, 4, 5, 6, 7, 9, 10]
    assert shards(ledger, turn.job) == [(301, 10, 9, 1)]
    failed = rows(ledger, "select place, type from pecker_item_errors")
    assert failed == [(7, "Unreadable")]
