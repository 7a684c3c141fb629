"""Notify: once for each threshold, and before Post, whatever became of its messages."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery

from celery_sharding import Sharding, flow, stages
from celery_sharding.ledger import Ledger, at
from celery_sharding.messages import NOTIFY
from tests.integration.sharding.conftest import Planner, Time
from tests.integration.sharding.flow.conftest import Lying, Message
from tests.integration.sharding.shift import run_job, run_layer

# redis-py says so of what Celery's backend calls.
pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated setex")

TASK = "proj.import_rows"
Told = list[float | str]


@pytest.fixture
def told(sharding: Sharding) -> Told:
    """Give what Notify and Post were told, in their order."""
    found: Told = []

    @sharding.task(name=TASK)
    def import_rows(shard: Any) -> None:
        del shard

    @import_rows.notify(every=0.25)
    def tell(job: Any, progress: Any) -> None:
        assert job.task == TASK
        found.append(progress.percent)
        if progress.percent == 50:
            message = "the chat is away"
            raise ValueError(message)

    @import_rows.post_process
    def post(*_: Any) -> None:
        found.append("post")

    return found


def test_each_threshold_is_told_once(
    app: Celery, ledger: Ledger, planned: Planner, told: Told
) -> None:
    """One that fails is not repeated, and a message that comes twice tells nothing."""
    ready = planned(((10,), (10,), (20,)), notify_every=0.25)
    assert stages.notify(app, ready.task_id) == 0
    run_layer(ledger, ready.job)
    assert stages.notify(app, ready.task_id) == 1
    assert stages.notify(app, ready.task_id) == 0
    ledger.outcomes.advance(ready.job)
    ledger.database.now.step(20)  # type: ignore[attr-defined]  # the tests' own time
    run_layer(ledger, ready.job)
    assert stages.notify(app, ready.task_id) == 1
    ledger.outcomes.advance(ready.job)
    ledger.database.now.step(20)  # type: ignore[attr-defined]  # the tests' own time
    run_layer(ledger, ready.job)
    assert stages.notify(app, ready.task_id) == 2
    assert told == [25.0, 50.0, 75.0, 100.0]


def test_what_was_not_told_is_told_before_post(
    app: Celery,
    ledger: Ledger,
    planned: Planner,
    told: Told,
    lying: Lying,
    deliver: Callable[[Message], Any],
) -> None:
    """All messages of Notify were lost."""
    ready = planned(((10,),), notify_every=0.25)
    run_job(ledger, ready.job)
    flow.advance_job(app, ledger, ready.job)
    [message] = [one for one in lying() if one.task == TASK]
    deliver(message)
    assert told == [25.0, 50.0, 75.0, 100.0, "post"]


def test_post_waits_for_a_notify_that_another_process_calls(
    app: Celery,
    ledger: Ledger,
    planned: Planner,
    sharding: Sharding,
    lying: Lying,
    deliver: Callable[[Message], Any],
) -> None:
    """All are reported before Post, and in their order."""
    reported: Told = []
    began, go_on = threading.Event(), threading.Event()

    @sharding.task(name="proj.slow")
    def slow(shard: Any) -> None: ...

    @slow.notify(every=0.25)
    def tell(job: Any, progress: Any) -> None:
        if progress.threshold == 0.25:
            began.set()
            assert go_on.wait(30)
        reported.append(progress.percent)

    @slow.post_process
    def post(*_: Any) -> None:
        reported.append("post")

    ready = planned(((10,),), notify_every=0.25, task="proj.slow")
    run_job(ledger, ready.job)
    other = threading.Thread(target=stages.notify, args=(app, ready.task_id))
    other.start()
    assert began.wait(30)
    flow.advance_job(app, ledger, ready.job)
    [message] = [one for one in lying() if one.task == "proj.slow"]
    poster = threading.Thread(target=deliver, args=(message,))
    poster.start()
    poster.join(1.0)  # it would be past Post by now
    go_on.set()
    for one in (other, poster):
        one.join(30)
    assert reported == [25.0, 50.0, 75.0, 100.0, "post"]


def test_a_mover_that_died_is_made_up_for(
    app: Celery, ledger: Ledger, planned: Planner, told: Told, lying: Lying, time: Time
) -> None:
    """It had closed the last layer, and said nothing."""
    ready = planned(((10,),), notify_every=0.25)
    run_layer(ledger, ready.job)
    assert ledger.outcomes.advance(ready.job)
    flow.advance_job(app, ledger, ready.job)
    assert [one.task for one in lying()] == [NOTIFY, TASK]


def test_a_job_nobody_knows_is_passed_over(app: Celery, told: Told) -> None:
    """It was purged; or its task is known to another worker only."""
    assert stages.notify(app, "nobody") == 0
    assert at(app).outcomes.threshold(4711) is None
