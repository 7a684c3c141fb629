"""An app with sharded jobs, in this process: a real ledger and a real broker."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
import redis
from celery import Celery

from celery_pecker.kernel.database import Database
from celery_pecker.kernel.settings import Settings
from celery_sharding import ShardedTask, Sharding
from celery_sharding.ledger import PACKAGE, Ledger


@pytest.fixture
def app(dsn: str, redis_url: str, queue_name: str) -> Iterator[Celery]:
    """Give an app whose messages nobody takes."""
    made = Celery(
        "calls",
        broker=redis_url,
        backend="cache+memory://",  # nobody waits for a result
        set_as_current=False,
    )
    made.conf.update(
        pecker_dsn=dsn,
        task_default_queue=queue_name,
        broker_transport_options={"socket_connect_timeout": 2},
        task_publish_retry_policy={"max_retries": 0},
        sharding_inline_bytes=20_000,
    )
    yield made
    made.close()


@pytest.fixture
def sharding(app: Celery) -> Sharding:
    """Give its sharded jobs."""
    return Sharding(app)


@pytest.fixture
def ledger(dsn: str) -> Iterator[Ledger]:
    """Give a way of this test's own to the same ledger."""
    settings = Settings(dsn=dsn, app="calls")
    made = Ledger(Database.of(settings, role="test", package=PACKAGE))
    yield made
    made.close()


@pytest.fixture
def messages(
    redis_url: str, queue_name: str
) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """Give a function that returns what lies in the queue, the oldest first."""
    client = redis.Redis.from_url(redis_url)

    def lying() -> list[dict[str, Any]]:
        found = []
        for raw in reversed(client.lrange(queue_name, 0, -1)):
            told = json.loads(raw)
            body = json.loads(b64decode(told["body"]))
            found.append({"headers": told["headers"], "body": body, "size": len(raw)})
        return found

    yield lying
    client.close()


@pytest.fixture
def rows(dsn: str) -> Callable[[str], list[tuple[Any, ...]]]:
    """Give a function that asks the database."""

    def ask(statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(dsn) as connection:
            return connection.execute(statement.encode()).fetchall()

    return ask


@pytest.fixture
def task(sharding: Sharding) -> ShardedTask:
    """Give a task whose first argument is its items."""

    @sharding.task(name="calls.rows")
    def rows(shard: Any) -> None:
        for row in shard:
            shard.ok(row)

    return rows


@pytest.fixture
def planned(sharding: Sharding) -> ShardedTask:
    """Give a task whose items come of PreProcess."""

    @sharding.task(name="calls.planned")
    def rows(shard: Any) -> None:
        for row in shard:
            shard.ok(row)

    @rows.pre_process
    def plan(job: Any, first: int, last: int = 3) -> Any:
        return [*range(first, last)]

    return rows


@pytest.fixture
def add(app: Celery) -> Any:
    """Give a plain task."""

    @app.task(name="calls.add", shared=False)
    def plus(one: int, other: int = 0) -> int:
        return one + other

    return plus
