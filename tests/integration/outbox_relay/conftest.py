"""An outbox of a test's own, and relays of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from celery_pecker.kernel.clock import new_id
from celery_pecker.kernel.database import Database
from celery_pecker.outbox.relay.batches import Batches
from tests.integration.outbox_relay.making import Made
from tests.integration.outbox_relay.wires import RabbitWire, RedisWire

Relays = Callable[..., Batches]
Makes = Callable[..., Made]


@pytest.fixture
def outbox(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """Give a connection to a database with an empty outbox."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def relays(dsn: str) -> Iterator[Relays]:
    """Give a way to make what a relay runs its statements with."""
    with ExitStack() as stack:

        def make(*, hold: float = 30.0) -> Batches:
            database = Database(dsn, schema="public", timeout=20)
            stack.callback(database.close)
            return Batches(database, new_id(), hold=hold)

        yield make


@pytest.fixture(params=["redis", "rabbitmq"])
def wire(
    request: pytest.FixtureRequest, queue_name: str
) -> Iterator[RedisWire | RabbitWire]:
    """Give a queue on each kind of broker."""
    made: RedisWire | RabbitWire
    if request.param == "redis":
        made = RedisWire(request.getfixturevalue("redis_url"), queue_name)
    else:
        made = RabbitWire(request.getfixturevalue("amqp_url"), queue_name)
    made.make()
    yield made
    made.close()


@pytest.fixture
def makes(dsn: str) -> Iterator[Makes]:
    """Give a way to make a relay on a broker, turned by hand."""
    with ExitStack() as stack:

        def make(broker: str, **options: Any) -> Made:
            made = Made(dsn, broker, **options)
            stack.callback(made.close)
            return made

        yield make
