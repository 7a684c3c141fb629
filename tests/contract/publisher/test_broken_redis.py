"""Redis hangs, dies, comes back: bounded in time, nothing twice, nothing unsaid."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import celery
import pytest
import redis

from celery_pecker.kernel.clock import SYSTEM, pause
from celery_pecker.kernel.errors import BrokerUnavailable, PublishUncertain
from celery_pecker.testing import EmbeddedRedis, eventually, free_port
from tests.contract.publisher.cases import CALLS, make_entry
from tests.contract.publisher.conftest import RedisWire, Stand, dispatch
from tests.proxy import Proxy

MakeStand = Callable[..., Stand]
TIMEOUT = 1.0
"""Seconds for an answer, where one stays away; else those of `stand_on`."""
#: What a call may take: a connection, an answer, and a slow machine.
BOUND = 20 * TIMEOUT


@pytest.fixture
def server(own_redis: Callable[..., EmbeddedRedis]) -> EmbeddedRedis:
    """Give a Redis that may be frozen and killed; it keeps what it answered."""
    return own_redis()


@contextmanager
def bounded() -> Iterator[None]:
    """What happens here ends in time."""
    started = SYSTEM.monotonic()
    yield
    assert SYSTEM.monotonic() - started < BOUND


def ready(stand: Stand, call: str = "nothing") -> Stand:
    """Return the stand with one entry known."""
    stand.known(make_entry(stand.app, "one", CALLS[call]))
    return stand


def test_nobody_there_is_said_at_once(stand_on: MakeStand) -> None:
    """Each call says so, and the entry is known all the same."""
    place = f"127.0.0.1:{free_port()}/0"
    stand = stand_on(RedisWire(f"redis://{place}"))
    entry = make_entry(stand.app, "one", CALLS["nothing"])
    for call in (
        stand.publisher.ensure,
        lambda: stand.known(entry),
        lambda: stand.send([dispatch("one")]),
    ):
        with bounded(), pytest.raises(BrokerUnavailable, match=place):
            call()


def test_a_frozen_server_ends_a_publish_in_time(
    server: EmbeddedRedis, stand_on: MakeStand, lane: str
) -> None:
    """It accepts and does not answer; when it thaws there is one message of each."""
    wire = RedisWire(server.url)
    stand = ready(stand_on(wire, timeout=TIMEOUT))
    stand.send([dispatch("one")])
    batch = [dispatch("one")]
    server.freeze()
    with bounded(), pytest.raises(PublishUncertain) as caught:
        stand.send(batch, "t")
    assert caught.value.retry_safe is (lane == "fast")
    with bounded(), pytest.raises(BrokerUnavailable):
        stand.publisher.ensure()
    with bounded():
        stand.publisher.close()
    server.thaw()
    if lane == "fast":
        stand.send(batch, "t")
    stand.send([dispatch("one")])

    eventually(lambda: len(wire_look(wire)) == 3, message="all have arrived")


def wire_look(wire: RedisWire) -> list[Any]:
    """Return the texts in the default list, and leave them there."""
    with redis.Redis.from_url(wire.url) as client:
        found: Any = client.lrange("celery", 0, -1)
    return list(found)


def test_a_killed_server_is_noticed_before_the_next_batch(
    server: EmbeddedRedis, stand_on: MakeStand, lane: str
) -> None:
    """A closed socket is seen without a question, so nothing is uncertain."""
    stand = ready(stand_on(RedisWire(server.url)))
    stand.send([dispatch("one")])
    server.kill()
    batch = [dispatch("one")]
    with bounded(), pytest.raises(BrokerUnavailable):
        stand.publisher.ensure()
    with bounded(), pytest.raises(BrokerUnavailable):
        stand.send(batch, "t")
    server.start()
    stand.send(batch, "t")

    # The first message may have gone with the server: its log is written behind while
    # an fsync is under way.
    texts = wire_look(RedisWire(server.url))
    assert sum(batch[0].task_id in text.decode() for text in texts) == 1


def test_after_a_restart_templates_and_queues_are_good_again(
    server: EmbeddedRedis, stand_on: MakeStand
) -> None:
    """The queue is declared anew, with its expiry, before the first message."""
    wire = RedisWire(server.url)
    stand = ready(stand_on(wire), "expiring queue")
    stand.send([dispatch("one")])
    before = [place for place, _ in wire.take()]
    server.kill()
    server.start()
    stand.send([dispatch("one")])

    assert [place for place, _ in wire.take()] == before
    # Before kombu 5.7 a queue on Redis has no expiry
    assert f"expires: {celery.VERSION >= (5, 7)}" in before[0]


def test_a_connection_cut_in_between_costs_a_reconnect_and_nothing_else(
    redis_wire: RedisWire, stand_on: MakeStand, lane: str
) -> None:
    """It was idle when it broke: nothing was under way."""
    with Proxy.before(redis_wire.url) as proxy:
        url = proxy.url
        stand = ready(stand_on(replace(redis_wire, url=url)))
        stand.send([dispatch("one")])
        proxy.cut()
        eventually(lambda: proxy.connections() == 0)
        stand.send([dispatch("one")])

    assert len(redis_wire.take()) == 2


def test_a_failover_list_is_walked_through(
    server: EmbeddedRedis, redis_wire: RedisWire, stand_on: MakeStand
) -> None:
    """The next URL is used when the first does not answer."""
    both = RedisWire(f"{server.url};{redis_wire.url}")
    stand = ready(stand_on(both))  # one that is gone refuses
    stand.send([dispatch("one")])
    # Before the kill: its log is written behind while an fsync is under way
    assert len(wire_look(RedisWire(server.url))) == 1
    server.kill()
    stand.send([dispatch("one")])

    assert len(redis_wire.take()) == 1


def test_a_user_s_own_timeouts_are_kept(
    server: EmbeddedRedis, stand_on: MakeStand
) -> None:
    """`socket_timeout` of broker_transport_options goes before ours."""
    options = {"socket_timeout": TIMEOUT, "retry_on_timeout": True}
    stand = ready(
        stand_on(RedisWire(server.url), timeout=60, broker_transport_options=options)
    )
    server.freeze()
    with bounded(), pytest.raises(PublishUncertain):
        stand.send([dispatch("one")])
    server.thaw()


def test_a_close_in_the_middle_ends_the_publish(
    redis_wire: RedisWire, stand_on: MakeStand
) -> None:
    """Another thread closes; who publishes hears of it, and neither hangs."""
    with Proxy.before(redis_wire.url) as proxy:
        url = proxy.url
        stand = ready(stand_on(replace(redis_wire, url=url), timeout=60))
        proxy.hang()
        said: list[Exception] = []

        def publish() -> None:
            try:
                stand.send([dispatch("one")])
            except (PublishUncertain, BrokerUnavailable) as error:
                said.append(error)

        thread = threading.Thread(target=publish)
        thread.start()
        pool = stand.publisher._broker.channel.pool
        # A look whether the connection stands has it for a moment too: the publish is
        # in its middle when the connection stays taken.
        taken = pool._in_use_connections

        def stays_taken() -> bool:
            for _ in range(20):
                pause(0.01)
                if not taken:
                    return False
            return True

        eventually(stays_taken)
        with bounded():
            stand.publisher.close()
            thread.join(BOUND)
        assert not thread.is_alive()
        assert said
