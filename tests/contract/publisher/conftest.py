"""An app, a publisher and the raw messages, on Redis and on RabbitMQ."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol

import pytest
import redis
from celery import Celery, signals
from celery.beat import Scheduler
from kombu import Connection

from celery_pecker.brokers.publisher import Dispatch, Publisher
from celery_pecker.kernel.clock import SYSTEM, new_id
from tests.contract.publisher.cases import make_app

AROUND = 60.0
"""Seconds that may pass between a call and the look at its message."""
HEADER: dict[str, object] = {
    "name": 'n%s"ü',
    "due_at": "2026-11-21T07:25:25.000001+00:00",
    "era": 0,
    "epoch": 1_795_245_925_000_001,
    "deadline": None,
}


def dispatch(name: str, **fields: Any) -> Dispatch:
    """Return a slot of the entry, with an id of its own."""
    return Dispatch(
        **{"name": name, "task_id": str(new_id()), "header": HEADER, **fields}
    )


class Wire(Protocol):
    """What lies on a broker."""

    url: str
    prefix: str
    settings: dict[str, Any]

    def take(self) -> list[tuple[str, str]]:
        """Return place and text of each message, without what differs; all is gone."""
        ...


@dataclass
class RedisWire:
    """The lists of a Redis database."""

    url: str
    settings: dict[str, Any] = field(default_factory=dict)
    prefix: str = ""

    def take(self) -> list[tuple[str, str]]:
        """Return key, whether it expires, and the stored JSON; all is gone."""
        client = redis.Redis.from_url(self.url)
        found = []
        keys: Any = client.keys("*")
        for key in sorted(keys):
            if client.type(key) == b"list":
                place = f"{key.decode()} expires: {client.pttl(key) > 0}"
                texts: Any = client.lrange(key, 0, -1)[::-1]
                found += [(place, _without(text.decode())) for text in texts]
        client.flushdb()
        client.close()
        return found


@dataclass
class RabbitWire:
    """The queues of this test on a RabbitMQ."""

    url: str
    prefix: str
    settings: dict[str, Any] = field(default_factory=dict)

    queues = ("celery", "expiring", "fading", "bound", "heard", "made-up")

    def take(self) -> list[tuple[str, str]]:
        """Return queue, exchange, key, properties and body; all is gone."""
        found = []
        with Connection(self.url) as connection:
            for name in self.queues:
                channel: Any = connection.channel()
                try:
                    count = channel.queue_declare(self.prefix + name, passive=True)[1]
                except connection.channel_errors:
                    continue
                for _ in range(count):
                    raw = channel.basic_get(self.prefix + name, no_ack=True)
                    if raw is None:
                        continue
                    place = f"{name} {raw.delivery_info['exchange']}"
                    place += f" {raw.delivery_info['routing_key']}"
                    text = json.dumps([raw.properties, raw.body], default=repr)
                    found.append((place, _without(text)))
        return found

    def depth(self, queue: str) -> int:
        """Return how many messages wait in the queue."""
        with Connection(self.url) as connection:
            channel: Any = connection.default_channel
            return int(channel.queue_declare(self.prefix + queue, passive=True)[1])

    def clear(self) -> None:
        """Nothing of this test is left."""
        with Connection(self.url) as connection:
            channel: Any = connection.default_channel
            for name in self.queues:
                channel.queue_delete(self.prefix + name)
            for name in ("direct", "topic", "celery", "made-up"):
                channel.exchange_delete(self.prefix + name)


def _without(text: str) -> str:
    """Blank out what each message has of its own but for its id.

    Times that are counted from the call are named so, and not rounded: two calls of one
    second may lie on both sides of any border.
    """
    text = re.sub(r'"delivery_tag": "[^"]*"', '"delivery_tag": "T"', text)
    if (expires := re.search(r'"expires": "([^"]*)"', text)) is None:
        return text
    instant = datetime.fromisoformat(expires[1])
    left = (
        instant.replace(tzinfo=instant.tzinfo or UTC) - SYSTEM.now()
    ).total_seconds()
    if abs(left) < AROUND:
        text = text.replace(expires[0], f'"expires": "soon {instant.utcoffset()}"')
    return re.sub(r'"expiration": "(\d+)"', partial(_counted, left), text)


def _counted(left: float, found: re.Match[str]) -> str:
    milliseconds = int(found[1])
    if milliseconds < 10_000 or abs(milliseconds / 1000 - left) > AROUND:
        return found[0]
    return '"expiration": "until it expires"'


@dataclass
class Stand:
    """An app on a broker, its publisher, and what arrives."""

    wire: Wire
    app: Celery
    scheduler: Scheduler
    publisher: Publisher
    made: ExitStack

    def known(self, *entries: Any) -> None:
        """The entries are prepared."""
        for entry in entries:
            self.publisher.prepare(entry)

    def send(self, batch: Sequence[Dispatch], token: str = "") -> None:
        """The batch is published under the token, or one of its own."""
        self.publisher.publish(batch, token or str(new_id()))

    def bind(self, queue: str) -> None:
        """A worker has declared and bound its queue."""
        with self.app.connection_for_write() as connection:
            known = self.app.amqp.queues[self.wire.prefix + queue]
            known.bind(connection.default_channel).declare()

    def plainly(self, entry: Any, task_id: str) -> None:
        """Celery's own beat has sent the entry once, under this id."""
        entry.options = {**entry.options, "task_id": task_id}
        with self.app.producer_or_acquire() as producer:
            if hasattr(producer.channel, "basic_publish_confirm"):
                # Else the message may be on its way while another connection looks.
                producer.channel.basic_publish = producer.channel.basic_publish_confirm
            self.scheduler.apply_async(entry, producer=producer, advance=False)


@pytest.fixture(params=["fast", "slow"])
def lane(request: pytest.FixtureRequest) -> Iterator[str]:
    """Give each lane in turn."""

    def listener(**_: object) -> None:
        """Do nothing."""

    if request.param == "slow":
        signals.before_task_publish.connect(listener)
    yield request.param
    signals.before_task_publish.disconnect(listener)


@pytest.fixture
def stand_on() -> Iterator[Callable[..., Stand]]:
    """Give a function that makes an app and its publisher on a broker."""
    with ExitStack() as stack:

        def make(wire: Wire, *, timeout: float = 30.0, **settings: Any) -> Stand:
            app = make_app(wire.url, wire.prefix, **{**wire.settings, **settings})
            scheduler = Scheduler(app, lazy=True)
            publisher = Publisher(app, scheduler, timeout=timeout)
            stack.callback(app.close)
            stack.callback(publisher.close)
            return Stand(wire, app, scheduler, publisher, stack)

        yield make


@pytest.fixture(params=["redis", "redis, prefixed", "rabbitmq"])
def wire(request: pytest.FixtureRequest) -> Iterator[Wire]:
    """Give each kind of broker in turn, empty."""
    if request.param == "rabbitmq":
        queue = request.getfixturevalue("queue_name")
        rabbit = RabbitWire(_pyamqp(request.getfixturevalue("amqp_url")), f"{queue}-")
        yield rabbit
        rabbit.clear()
        return
    prefix = {"global_keyprefix": "app:"} if "prefixed" in request.param else {}
    url = request.getfixturevalue("redis_url")
    yield RedisWire(url, {"broker_transport_options": prefix})


@pytest.fixture
def redis_wire(redis_url: str) -> RedisWire:
    """Give an empty Redis."""
    return RedisWire(redis_url)


@pytest.fixture
def rabbit_wire(amqp_url: str, queue_name: str) -> Iterator[RabbitWire]:
    """Give RabbitMQ, with queues of this test's own."""
    rabbit = RabbitWire(_pyamqp(amqp_url), f"{queue_name}-")
    yield rabbit
    rabbit.clear()


def _pyamqp(url: str) -> str:
    return re.sub("^amqp:", "pyamqp:", url)
