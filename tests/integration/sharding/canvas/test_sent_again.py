"""The message of a job that is sent again says what the first one said."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
import redis
from celery import Celery
from kombu import Message

from celery_sharding import ShardedTask, sweeper
from celery_sharding.canvas.request import JobRequest
from celery_sharding.ledger import Ledger
from celery_sharding.model import Outcome, Stage

OF_ONE = {"sharding", "sharding_run", "origin", "argsrepr", "kwargsrepr"}
"""Headers that tell one message from another, and nothing of how it is to be run."""
LOST = "update pecker_jobs set sent_at = null"
Taken = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def taken(redis_url: str, queue_name: str) -> Iterator[Taken]:
    """Give a function that takes what lies in the queue, of whatever priority."""
    client: Any = redis.Redis.from_url(redis_url)

    def take() -> list[dict[str, Any]]:
        found = []
        for key in sorted(client.keys(f"{queue_name}*")):
            while (raw := client.rpop(key)) is not None:
                found.append({**json.loads(raw), "key": key.decode()})
        return found

    yield take
    client.close()


def headers(message: dict[str, Any]) -> dict[str, Any]:
    """Return what a message says of how its job is to be run."""
    return {key: it for key, it in message["headers"].items() if key not in OF_ONE}


def body(message: dict[str, Any]) -> Any:
    """Return what follows the job, as the message brings it."""
    return json.loads(b64decode(message["body"]))[2]


def again(app: Celery, dsn: str, taken: Taken, said: str = LOST) -> dict[str, Any]:
    """Return the message that the sweeper sends."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(said.encode())
    sweeper.sweep(app)
    (message,) = taken()
    return message


@pytest.fixture
def first(app: Celery, task: ShardedTask, add: Any, taken: Taken) -> dict[str, Any]:
    """Give the message of a call that says all that one can."""
    app.conf.broker_transport_options = {"priority_steps": [0, 3, 6, 9]}
    signature: Any = task.s([1, 2])
    called = signature.set(
        countdown=600,
        expires=900,
        priority=6,
        headers={"mine": "kept"},
        shadow="rows",
        time_limit=30,
        soft_time_limit=20,
        compression="zlib",
        ignore_result=True,
        link=add.si(1, 2),
        link_error=add.si(3),
    )
    called.stamp(tenant="a")
    called.apply_async()
    (message,) = taken()
    return message


def test_all_that_the_call_said_is_said_again(
    app: Celery, dsn: str, first: dict[str, Any], taken: Taken
) -> None:
    """Countdown and expiry too: it would begin at once, or after it has expired."""
    second = again(app, dsn, taken)
    assert second["headers"]["sharding"] == "resent"
    assert headers(second) == headers(first)
    assert second["key"] == first["key"]  # the queue, and the priority
    kept = ("priority", "delivery_mode", "correlation_id", "body_encoding")
    assert {one: second["properties"][one] for one in kept} == {
        one: first["properties"][one] for one in kept
    }
    assert second["content-encoding"] == first["content-encoding"]
    assert second["headers"]["compression"] == first["headers"]["compression"]


def test_a_copy_is_not_sent_again_before_it_may_start(
    app: Celery, dsn: str, first: dict[str, Any], taken: Taken
) -> None:
    """A worker would hold one of them each minute until then."""
    again(app, dsn, taken)
    with psycopg.connect(dsn) as connection:
        found = connection.execute(
            "select extract(epoch from sent_at - clock_timestamp()) from pecker_jobs"
        )
        ((ahead,),) = found.fetchall()
    assert 500 < ahead < 700


def test_a_job_that_has_begun_does_not_expire(
    app: Celery, dsn: str, ledger: Ledger, first: dict[str, Any], taken: Taken
) -> None:
    """It began in time: what is sent later is for Post, or for who follows the dead."""
    ledger.plans.begin(first["headers"]["id"], "dead:1:a", 0.0)
    second = again(app, dsn, taken)
    assert (second["headers"]["eta"], second["headers"]["expires"]) == (None, None)
    assert second["headers"]["mine"] == "kept"
    assert second["headers"]["stamps"] == first["headers"]["stamps"]
    assert second["headers"]["stamps"]
    assert second["key"] == first["key"]


@pytest.mark.parametrize("begun", [True, False])
def test_a_copy_that_comes_when_its_job_has_begun_is_not_expired(
    task: ShardedTask, ledger: Ledger, taken: Taken, *, begun: bool
) -> None:
    """Celery would say that it was revoked, and the job that runs be cancelled."""
    result = task.apply_async(([1, 2],), expires=-1)
    if begun:
        ledger.plans.begin(result.id, "other:1:a", 15.0)
    (message,) = taken()
    request = JobRequest(
        Message(body=message["body"], delivery_info={}, properties={}),
        headers=message["headers"],
        body=([], {}, {}),
        decoded=True,
        app=task.app,
        task=task,
    )
    assert request.revoked() is not begun
    row = ledger.reading.job(result.id)
    if begun:
        assert row.stage is Stage.PLANNING
    else:
        assert row.outcome is Outcome.CANCELLED
