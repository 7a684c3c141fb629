"""A Redis Cluster keeps a system's keys together; sentinels lead to the primary."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
import redis

from celery_pecker.testing import EmbeddedRedis, eventually
from tests import sentinels
from throttle.errors import StoreUnavailable
from throttle.model import Amount, DatabaseReport, Estimator, Holding, Report, Sample
from throttle.store.redis import RedisStore

OwnRedis = Callable[..., EmbeddedRedis]
SLOTS = 16_384
LIMIT = Amount(1000)


def report(number: int = 0) -> Report:
    """Return what a worker says of two databases."""
    told = DatabaseReport(
        samples=(Sample(0.0, Amount(10)),), holding=Holding(want=1, limit=LIMIT)
    )
    return Report(
        holder="a", name="a", number=number, databases={"main": told, "other": told}
    )


@pytest.fixture
def nodes(own_redis: OwnRedis) -> Iterator[list[EmbeddedRedis]]:
    """Give two nodes of a cluster, each with half of the slots."""
    servers = [
        own_redis(fast=True, settings={"cluster-enabled": "yes"}) for _ in range(2)
    ]
    with redis.Redis.from_url(servers[1].url) as client:
        client.config_set("requirepass", servers[0].password)
        servers[1].password = servers[0].password
    with ExitStack() as stack:
        clients = [
            stack.enter_context(redis.Redis.from_url(server.url)) for server in servers
        ]
        half = SLOTS // 2
        clients[0].execute_command("CLUSTER", "ADDSLOTS", *range(half))
        clients[1].execute_command("CLUSTER", "ADDSLOTS", *range(half, SLOTS))
        clients[0].execute_command("CLUSTER", "MEET", "127.0.0.1", servers[1].port)
        for client in clients:
            eventually(partial(well, client), timeout=30)
        yield servers


def well(client: redis.Redis) -> bool:
    """Say whether a node knows where all slots are."""
    found = client.execute_command("CLUSTER", "INFO")  # type: ignore[no-untyped-call]  # redis-py's own
    return b"cluster_state:ok" in found


@pytest.mark.parametrize("asked", [0, 1])
def test_either_node_of_a_cluster_leads_to_the_keys(
    nodes: list[EmbeddedRedis], asked: int
) -> None:
    """All of them lie on one node, and the store follows there."""
    store = RedisStore(nodes[asked].url, timeout=5)
    try:
        store.check()
        for number in range(1, 4):
            store.exchange(report(number))
        store.lower("main", 0.5, "slow", 10)
        assert store.elect("main", "a", 10)
        view = store.look()["main"]
        assert view.signal == "slow"
        assert view.seen.traffic[Estimator.FAST].operations > 0
    finally:
        store.close()
    kept = []
    for server in nodes:
        with redis.Redis.from_url(server.url) as client:
            kept.append(client.dbsize())
    assert min(kept) == 0
    assert max(kept) > 5


@pytest.fixture
def pair(own_redis: OwnRedis) -> list[EmbeddedRedis]:
    """Give a primary and its replica."""
    servers = [own_redis(fast=True), own_redis(fast=True)]
    sentinels.follow(servers[1], servers[0])
    return servers


@pytest.fixture
def sentinel(pair: list[EmbeddedRedis], tmp_path: Path) -> Iterator[str]:
    """Give the address of a Sentinel that knows them and is quick to decide."""
    with sentinels.sentinel(pair[0], tmp_path) as port:
        yield f"sentinel://:{pair[0].password}@127.0.0.1:{port}/0?master_name={sentinels.MASTER}"


def test_sentinels_lead_to_the_next_primary(
    pair: list[EmbeddedRedis], sentinel: str
) -> None:
    """It is away between the two, and the same store finds the next."""
    store = RedisStore(sentinel, timeout=1)
    try:
        store.check()
        store.exchange(report(1))
        pair[0].kill()
        with pytest.raises(StoreUnavailable):
            store.exchange(report(2))

        def answers() -> bool:
            store.exchange(report(3))
            return True

        eventually(answers, timeout=30, ignoring=(StoreUnavailable,))
        with redis.Redis.from_url(pair[1].url) as client:
            assert client.exists("{throttle}:1:clock")
    finally:
        store.close()
