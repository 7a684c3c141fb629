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

ALL = "redis-prefork"
"""Plays each shape."""

DIFFERENT = "rabbitmq-threads"
"""Plays the shapes below, which depend on the broker or on the pool."""

OTHERS = ("redis-threads", "rabbitmq-prefork")
"""No code of ours asks for both at once: `make soak` plays all shapes here too."""

ON_EACH = {
    # the broker carries it: control messages, properties and headers of a message
    "revoked_by_celery",
    "a_queue",
    "a_priority",
    "a_countdown",
    "an_expiry_that_is_kept",
    "an_expiry_that_is_over",
    "of_a_worker_that_does_not_know_it",
    "stamps_go_on",
    "sources_in_a_canvas",
    "a_source_and_headers",
    "a_source_in_a_link",
    "a_file_in_a_canvas",
    "sources_of_unknown_origin",
    # the pool runs it: threads share state, a child may be told less
    "pre_process",
    "items_that_are_tried_again",
    "a_task_that_asks_for_retries",
    "items_that_fail",
    "any_task_for_each_item",
    "one_key_one_job",
    "paused_and_resumed",
    "cancelled",
    "cancelled_in_a_header",
    "failed_items_again",
    "a_task_that_is_replaced",
    # one of each place, by way of both
    "a_list",
    "middle_of_a_chain",
    "a_group",
    "header_of_a_chord",
    "body_of_a_chord",
    "a_link",
    "an_errback_of_three_arguments",
    "a_header_that_fails",
}


def on(*stands: str) -> pytest.MarkDecorator:
    """Play on these; on the others in `make soak` alone.

    All that are played on one stand share its worker: each list has the same order.
    """
    return pytest.mark.parametrize(
        "scene",
        [
            pytest.param(one, marks=() if one in stands else (pytest.mark.soak,))
            for one in (ALL, DIFFERENT, *OTHERS)
        ],
        indirect=True,
    )


@pytest.fixture(scope="module")
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
            "pecker_worker": ["scheduler"],
            "sharding_inline_bytes": 20_000,
        }
        options = ["-P", pool]
        with playing(
            conf, notes=redis_server.url, queue=queue, options=options
        ) as scene:
            yield scene
        if broker == "rabbitmq":
            with Connection(broker_url) as connection:
                Queue(queue)(connection.channel()).delete()


@on(ALL)
@pytest.mark.parametrize("name", [name for name in SHAPES if name not in ON_EACH])
def test_shape(scene: Scene, name: str) -> None:
    """The canvas comes to what it would with any other task in its place."""
    SHAPES[name](scene)


@on(ALL, DIFFERENT)
@pytest.mark.parametrize("name", sorted(ON_EACH))
def test_shape_that_differs(scene: Scene, name: str) -> None:
    """Another broker carries it and another kind of pool runs it: it is the same."""
    SHAPES[name](scene)


def test_each_shape_that_differs_is_one() -> None:
    """A shape that is renamed must not drop out of the list unseen."""
    assert set(SHAPES) >= ON_EACH
