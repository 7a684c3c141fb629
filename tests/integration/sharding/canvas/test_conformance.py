"""A sharded job in every place of a canvas, on each broker and in each pool."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest
from kombu import Connection, Queue

from tests.integration.sharding.canvas.shapes import SHAPES, Scene
from tests.integration.sharding.canvas.stage import playing
from tests.services import PostgresStand, RedisStand

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    # Celery's backend calls what redis-py would have called otherwise
    pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning"),
]

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
    broker_url = redis_server.url
    if broker == "rabbitmq":
        broker_url = request.getfixturevalue("amqp_server")
    with postgres_server.fresh(migrated=True) as dsn:
        conf = {
            "broker_url": broker_url,
            "result_backend": redis_server.url,
            "task_default_queue": queue,
            "broker_connection_retry_on_startup": True,
            "worker_prefetch_multiplier": 1,
            "pecker_dsn": dsn,
            "pecker_worker": True,
            "sharding_inline_limit": 20_000,
        }
        options = ["-P", pool]
        with playing(
            conf, notes=redis_server.url, queue=queue, options=options
        ) as scene:
            yield scene
        if broker == "rabbitmq":
            with Connection(broker_url) as connection:
                Queue(queue)(connection.channel()).delete()


@pytest.mark.parametrize("name", SHAPES)
def test_shape(scene: Scene, name: str) -> None:
    """The canvas comes to what it would with any other task in its place."""
    SHAPES[name](scene)
