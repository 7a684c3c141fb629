"""What a task sends knows what is left; the scheduler's fast lane stays fast."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import redis
from celery import Celery, signals
from celery.beat import Scheduler

from celery_pecker import deadline
from celery_pecker.brokers.publisher.lanes import SignalReceivers
from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.runs import guard as inheritance
from celery_pecker.runs import running

if TYPE_CHECKING:
    from tests.integration.runs.conftest import Bench


def sent(app: Celery, redis_url: str, **options: Any) -> dict[str, Any]:
    """Send a task; return the headers of its message."""
    app.send_task("sub", queue="handed", **options)
    with redis.Redis.from_url(redis_url) as client:
        payload: Any = client.lpop("handed")
    headers: dict[str, Any] = json.loads(payload)["headers"]
    return headers


def test_a_message_carries_what_is_left(bench: Bench, redis_url: str) -> None:
    """If there is a deadline, and nobody opted out."""
    inheritance.connect()
    inheritance.connect()
    run = bench.run()
    with Celery("sender", broker=redis_url, set_as_current=False) as app:
        assert "pecker_deadline" not in sent(app, redis_url)
        with deadline.within(3.0):
            told = sent(app, redis_url)["pecker_deadline"]
            assert 0 < told["left"] <= 3.0
            assert datetime.fromisoformat(told["at"]).tzinfo is not None
            assert "name" not in told
            with running(run), deadline.within(1.0):
                told = sent(app, redis_url)["pecker_deadline"]
                assert 0 < told["left"] <= 1.0
                assert (told["name"], told["epoch"]) == ("sweep", run.epoch)
            given = sent(app, redis_url, headers={"pecker_deadline": None, "a": 1})
            assert "pecker_deadline" not in given
            assert given["a"] == 1
            with deadline.detached():
                assert "pecker_deadline" not in sent(app, redis_url)


def test_what_is_for_later_is_not_of_this_run(bench: Bench, redis_url: str) -> None:
    """It would come after the deadline for certain, and be refused."""
    inheritance.connect()
    later = SYSTEM.now() + timedelta(seconds=60)
    with (
        Celery("sender", broker=redis_url, set_as_current=False) as app,
        deadline.within(3.0),
        running(bench.run()),
    ):
        for options in ({"countdown": 60}, {"eta": later}):
            assert "pecker_deadline" not in sent(app, redis_url, **options)
        assert "pecker_deadline" in sent(app, redis_url, countdown=0.5)
        came = {"at": later.isoformat(), "left": 0.5}
        told = sent(app, redis_url, countdown=60, headers={"pecker_deadline": came})
        assert told["pecker_deadline"]["left"] == 0.5, "the caller has said so"


def test_a_retry_carries_no_more_than_it_came_with(
    bench: Bench, redis_url: str
) -> None:
    """Celery hands the headers of a task on to its retry."""
    inheritance.connect()
    came: dict[str, Any] = {"at": "2026-01-01T00:00:00+00:00", "left": 0.5}
    with (
        Celery("sender", broker=redis_url, set_as_current=False) as app,
        deadline.within(3.0),
    ):
        told = sent(app, redis_url, headers={"pecker_deadline": came})
        assert told["pecker_deadline"]["left"] <= 0.5
        header = bench.header(datetime.fromisoformat(came["at"]), 7)
        run = bench.run()
        with running(run):
            told = sent(app, redis_url, headers={"pecker": header})
        assert "pecker_deadline" in told, "another slot's header, and a new id"


def test_the_receiver_keeps_nobody_out_of_the_fast_lane() -> None:
    """Ours has nothing to say of a slot; anybody else's has."""
    inheritance.connect()
    app = Celery("sender", broker="memory://", set_as_current=False)
    onlooker = SignalReceivers(app, Scheduler(app, lazy=True))
    assert signals.before_task_publish.receivers
    assert onlooker.reason() is None

    def watch(**_: object) -> None:
        pass

    signals.before_task_publish.connect(watch)
    try:
        assert "before_task_publish" in (onlooker.reason() or "")
    finally:
        signals.before_task_publish.disconnect(watch)
