"""A sharded job in every place of a canvas, on each broker and in each pool."""

from __future__ import annotations

import gc
import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from kombu import Connection, Queue

from celery_pecker.testing.cluster import start, worker
from tests.integration.sharding.canvas import cast as cast_module
from tests.integration.sharding.canvas.cast import CONF, cast
from tests.integration.sharding.canvas.shapes import SHAPES, Scene
from tests.services import PostgresStand, RedisStand

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    # Celery's backend calls what redis-py would have called otherwise
    pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning"),
]

ROOT = Path(__file__).parents[4]
STANDS = [
    f"{broker}-{pool}"
    for broker in ("redis", "rabbitmq")
    for pool in ("prefork", "threads")
]


@pytest.fixture(scope="module", params=STANDS)
def scene(
    request: pytest.FixtureRequest,
    postgres_server: PostgresStand,
    redis_server: RedisStand,
) -> Iterator[Scene]:
    """Give a worker that plays all shapes, one after the other."""
    broker, pool = request.param.split("-")
    queue = f"pecker-test-{secrets.token_hex(6)}"
    redis_server.flush()
    broker_url = (
        redis_server.url
        if broker == "redis"
        else request.getfixturevalue("amqp_server")
    )
    with postgres_server.fresh(migrated=True) as dsn:
        conf = {
            "broker_url": broker_url,
            "result_backend": redis_server.url,
            "task_default_queue": queue,
            "broker_connection_retry_on_startup": True,
            "worker_prefetch_multiplier": 1,
            "pecker_dsn": dsn,
            "sharding_inline_limit": 20_000,
        }
        told = {"conf": {**conf, "pecker_worker": True}, "notes": redis_server.url}
        node = worker(
            cast_module.__name__,
            name=f"shapes-{pool}",
            queue=queue,
            cwd=ROOT,
            env={CONF: json.dumps(told)},
            options=["-c", "3", "-P", pool, "--without-gossip", "--without-mingle"],
        )
        made = cast(conf, notes=redis_server.url)
        try:
            start([node], lambda one: one.container._wait_ready())
            yield Scene(cast=made, queue=queue)
        finally:
            node.teardown()
            close(made.app)
            close(made.stranger)
            if broker == "rabbitmq":
                with Connection(broker_url) as connection:
                    Queue(queue)(connection.channel()).delete()


def close(app: Celery) -> None:
    """Nothing of this process stays connected."""
    backend: Any = app.backend
    gc.collect()  # results unsubscribe when they go, some of them in a circle
    backend.result_consumer.stop()
    backend.result_consumer._pubsub = None
    backend.client.connection_pool.disconnect()
    app.close()


@pytest.mark.parametrize("name", SHAPES)
def test_shape(scene: Scene, name: str) -> None:
    """The canvas comes to what it would with any other task in its place."""
    SHAPES[name](scene)
