"""An app with sharded jobs in this process, and what lies in its queue."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
import redis
from celery import Celery
from celery.app.trace import build_tracer

from celery_sharding import Sharding
from tests.integration.sharding.disconnect import disconnect

REFUSED = "redis://localhost:1/0"
"""Where no broker is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message as it lies in a queue."""

    task: str
    id: str
    args: list[Any]
    embed: dict[str, Any]
    headers: dict[str, Any]
    priority: int
    size: int
    """Bytes of its body."""


Lying = Callable[..., list[Message]]


def application(dsn: str, broker: str, backend: str, queue: str) -> Celery:
    """Return an app on those servers."""
    made = Celery("flow", broker=broker, backend=backend, set_as_current=False)
    made.conf.update(
        pecker_dsn=dsn,
        task_default_queue=queue,
        broker_transport_options={"socket_connect_timeout": 2},
        broker_connection_retry_on_startup=True,
        result_backend_transport_options={"socket_connect_timeout": 2},
        worker_hijack_root_logger=False,
    )
    return made


@pytest.fixture
def app(dsn: str, redis_url: str, queue_name: str) -> Iterator[Celery]:
    """Give an app whose messages nobody takes, unless a test does."""
    made = application(dsn, redis_url, redis_url, queue_name)
    yield made
    disconnect(made)


@pytest.fixture(autouse=True)
def sharding(app: Celery) -> Sharding:
    """Give its sharded jobs."""
    return Sharding(app)


@pytest.fixture
def lying(redis_url: str, queue_name: str) -> Iterator[Callable[..., list[Message]]]:
    """Give a function that takes what lies in a queue, the oldest first."""
    client: Any = redis.Redis.from_url(redis_url)

    def taken(queue: str = queue_name) -> list[Message]:
        found = []
        while (raw := client.rpop(queue)) is not None:
            told = json.loads(raw)
            body = b64decode(told["body"])
            args, _, embed = json.loads(body)
            found.append(
                Message(
                    task=told["headers"]["task"],
                    id=told["headers"]["id"],
                    args=args,
                    embed=embed,
                    headers=told["headers"],
                    priority=told["properties"]["priority"],
                    size=len(body),
                )
            )
        return found

    yield taken
    client.close()


@pytest.fixture
def deliver(app: Celery) -> Callable[[Message], Any]:
    """Give a function that does what a worker does with a message; its tracer's word.

    The exception of a task that failed, or what it returned; None where it was ignored.
    """

    def delivered(message: Message) -> Any:
        task = app.tasks[message.task]
        trace = build_tracer(task.name, task, app=app)
        request = {
            **message.headers,
            **message.embed,
            "delivery_info": {"exchange": "", "routing_key": "", "priority": 0},
            "hostname": "worker@host",
        }
        answer, info = trace(message.id, message.args, {}, request)[:2]
        if info is None:
            return answer
        return info.retval if info.state in {"FAILURE", "RETRY"} else None

    return delivered


@pytest.fixture
def tell(dsn: str) -> Callable[..., None]:
    """Give a function that writes to the database."""

    def write(statement: str, *given: object) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(statement.encode(), given)

    return write
