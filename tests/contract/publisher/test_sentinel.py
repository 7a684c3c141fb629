"""Behind a Redis Sentinel the fast lane follows the master."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from celery_pecker.kernel.errors import BrokerUnavailable, PublishUncertain
from celery_pecker.testing import EmbeddedRedis, eventually
from tests import sentinels
from tests.contract.publisher.cases import CALLS, make_entry
from tests.contract.publisher.conftest import RedisWire, Stand, dispatch
from tests.contract.publisher.lanes import Lane, lane_of
from tests.proxy import Proxy


@pytest.fixture
def replicas(own_redis: Callable[..., EmbeddedRedis]) -> list[EmbeddedRedis]:
    """Give a master and a replica."""
    servers = [own_redis(fast=True), own_redis(fast=True)]
    sentinels.follow(servers[1], servers[0])
    return servers


@pytest.fixture
def sentinel(replicas: list[EmbeddedRedis], tmp_path: Path) -> Iterator[int]:
    """Give the port of a Sentinel that knows them and is quick to decide."""
    with sentinels.sentinel(replicas[0], tmp_path) as port:
        yield port


def test_the_next_master_gets_what_the_last_one_cannot_take(
    replicas: list[EmbeddedRedis], sentinel: int, stand_on: Callable[..., Stand]
) -> None:
    """After a failover a batch arrives once, under the token that it had before."""
    wire = RedisWire(
        f"sentinel://:{replicas[0].password}@127.0.0.1:{sentinel}/0",
        {"broker_transport_options": {"master_name": sentinels.MASTER}},
    )
    stand = stand_on(wire, timeout=1.0)
    stand.known(make_entry(stand.app, "one", CALLS["nothing"]))
    assert lane_of(stand.publisher, "one").lane is Lane.FAST
    batch = [dispatch("one")]
    stand.send(batch, "t")
    master, replica = replicas
    with redis.Redis.from_url(replica.url) as client:
        eventually(lambda: client.llen("celery") == 1, message="replicated")
        master.kill()

        def sent() -> bool:
            stand.send(batch, "t")
            stand.send([dispatch("one")], "u")
            return True

        eventually(
            sent,
            timeout=30,
            interval=0.2,
            ignoring=(BrokerUnavailable, PublishUncertain),
        )
        assert client.llen("celery") == 2


@pytest.fixture
def silent(sentinel: int) -> Iterator[Proxy]:
    """Give the way to a Sentinel that accepts and never answers."""
    with Proxy("127.0.0.1", sentinel) as proxy:
        proxy.hang()
        yield proxy


def wire_to(*ports: int, password: str = "", **options: Any) -> RedisWire:
    """Return what lies behind Sentinels on these ports."""
    urls = ";".join(f"sentinel://:{password}@127.0.0.1:{port}/0" for port in ports)
    given = {"master_name": sentinels.MASTER, **options}
    return RedisWire(urls, {"broker_transport_options": given})


def ensured(stand: Stand) -> bool:
    """Say whether the broker is reached, which has to be known within ten seconds.

    That is when probes call a scheduler hung.
    """
    reached: list[bool] = []

    def ensure() -> None:
        try:
            stand.publisher.ensure()
        except BrokerUnavailable:
            reached.append(False)
        else:
            reached.append(True)

    thread = threading.Thread(target=ensure, daemon=True)
    thread.start()
    thread.join(30.0)
    assert reached, "it still waits"
    return reached[0]


@pytest.mark.parametrize("options", [{}, {"sentinel_kwargs": {"db": 0}}], ids=str)
def test_silent_sentinels_are_waited_for_within_the_timeout(
    silent: Proxy, stand_on: Callable[..., Stand], options: dict[str, Any]
) -> None:
    """redis-py asks each of them four times, with pauses, unless it is told not to."""
    ports = [silent.port] * 3
    assert not ensured(stand_on(wire_to(*ports, **options), timeout=1.0))


def test_a_sentinel_that_answers_is_asked_after_silent_ones(
    replicas: list[EmbeddedRedis],
    silent: Proxy,
    sentinel: int,
    stand_on: Callable[..., Stand],
) -> None:
    """Each has its share of the time."""
    ports = [silent.port, silent.port, sentinel]
    wire = wire_to(*ports, password=replicas[0].password)
    assert ensured(stand_on(wire, timeout=1.0))


def test_a_sentinel_that_falls_silent_delays_no_answer_for_long(
    replicas: list[EmbeddedRedis], silent: Proxy, stand_on: Callable[..., Stand]
) -> None:
    """The connection stands, and the primary goes: it is looked for again."""
    silent.open()
    wire = wire_to(silent.port, password=replicas[0].password)
    stand = stand_on(wire, timeout=1.0)
    assert ensured(stand)
    silent.hang()
    stand.publisher._broker.channel.pool.disconnect()
    assert not ensured(stand)
