"""Behind a Redis Sentinel the fast lane follows the master."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from celery_pecker.errors import BrokerUnavailable, PublishUncertain
from celery_pecker.publisher import Lane
from celery_pecker.testing import EmbeddedRedis, eventually, free_port
from celery_pecker.testing.binaries import redis_server as program
from tests.contract.publisher.cases import CALLS, make_entry
from tests.contract.publisher.conftest import RedisWire, Stand, dispatch


@pytest.fixture
def replicas(own_redis: Callable[..., EmbeddedRedis]) -> list[EmbeddedRedis]:
    """Give a master and a replica."""
    master = own_redis(fast=True)
    replica = own_redis(fast=True)
    with redis.Redis.from_url(replica.url) as client:
        client.replicaof("127.0.0.1", master.port)
        eventually(lambda: client.info("replication")["master_link_status"] == "up")
    return [master, replica]


@pytest.fixture
def sentinel(replicas: list[EmbeddedRedis], tmp_path: Path) -> Iterator[int]:
    """Give the port of a Sentinel that knows them and is quick to decide."""
    port = free_port()
    settings = tmp_path / "sentinel.conf"
    settings.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {tmp_path}\n"
        f"sentinel monitor main 127.0.0.1 {replicas[0].port} 1\n"
        "sentinel down-after-milliseconds main 300\n"
        "sentinel failover-timeout main 3000\n"
    )
    process = subprocess.Popen(
        [program(), settings, "--sentinel"], stdout=subprocess.DEVNULL
    )
    client = redis.Redis(port=port)
    try:
        eventually(
            lambda: len(client.sentinel_slaves("main")) == 1,
            ignoring=(redis.RedisError,),
        )
        yield port
    finally:
        client.close()
        process.kill()
        process.wait()


def test_the_next_master_gets_what_the_last_one_cannot_take(
    replicas: list[EmbeddedRedis], sentinel: int, stand_on: Callable[..., Stand]
) -> None:
    """After a failover a batch arrives once, under the token that it had before."""
    wire = RedisWire(
        f"sentinel://127.0.0.1:{sentinel}/0",
        {"broker_transport_options": {"master_name": "main"}},
    )
    stand = stand_on(wire, timeout=1.0)
    stand.known(make_entry(stand.app, "one", CALLS["nothing"]))
    assert stand.publisher.lane("one").lane is Lane.FAST
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
