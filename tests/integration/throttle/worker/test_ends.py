"""What is held goes back: when the worker ends, and when its connection does."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from celery_pecker.testing import EmbeddedRedis
from tests.integration.throttle.worker.stand import Stand

pytestmark = pytest.mark.cluster

HELD = [f"g{number}" for number in range(12)]


@pytest.mark.parametrize("pool", ["prefork", "gevent"])
def test_a_warm_shutdown_gives_back_at_once(either: Stand, pool: str) -> None:
    """Another worker takes what was held, while the first still runs a task."""
    either.start(pool=pool)
    either.until_shut()
    either.send("occupied", "long")
    either.send("gated", *HELD[:6])
    either.send("gated_late", *HELD[6:])
    either.until_held(12)
    either.until(either.ran_all("began long"), "it runs")
    os.kill(either.workers[0].pid, signal.SIGTERM)
    either.start(pool=pool)
    either.reopen()
    either.until(either.ran_all(*HELD), "the other ran them")
    assert "long" not in either.ran
    either.open("long")
    either.until(lambda: either.workers[0].exit_code == 0, "it ended")
    assert set(either.ran.values()) == {1}


def test_they_go_back_in_their_order(stand: Stand, redis_url: str) -> None:
    """The oldest is the next."""
    stand.start()
    stand.until_shut()
    stand.send("gated", *HELD)
    stand.until_held(12)
    stand.end()
    with redis.Redis.from_url(redis_url) as client:
        queued = client.lrange(stand.queue, 0, -1)
        assert client.zcard("unacked_index") == 0
    assert len(queued) == 12
    stand.reopen()
    stand.start("-c", "1", pool="solo")
    stand.until(stand.ran_all(*HELD), "they ran")
    ran = [name for _, name in stand.lines]
    # One may have been fetched in the very moment that the worker ended
    moved = [name for name, due in zip(ran, HELD, strict=True) if name != due]
    assert sorted(ran, key=HELD.index) == HELD
    assert not moved or [name for name in ran if name != HELD[0]] == HELD[1:]


def test_a_cold_shutdown_loses_nothing(either: Stand) -> None:
    """Nor does a kill: the broker hands them out again."""
    either.start()
    either.until_shut()
    either.send("gated", *HELD)
    either.until_held(12)
    either.end(signal.SIGQUIT)
    either.start()
    either.reopen()
    either.until(either.ran_all(*HELD), "they ran")
    assert set(either.ran.values()) == {1}


def test_a_lost_connection_gives_back(
    own_redis: Callable[..., EmbeddedRedis], redis_url: str, tmp_path: Path
) -> None:
    """The broker was killed: the worker lives, and each held task runs once."""
    broker = own_redis()
    stand = Stand(tmp_path, broker=broker.url, store=redis_url)
    try:
        worker = stand.start()
        stand.until_shut()
        stand.send("gated", *HELD)
        stand.until_held(12)
        connected = worker.life_log().count("Connected to redis")
        broker.kill()
        stand.until(
            lambda: "connection to broker lost" in worker.life_log().lower(), ""
        )
        stand.until_held(0)
        broker.start()
        stand.until(
            lambda: worker.life_log().count("Connected to redis") > connected, "is back"
        )
        stand.until_held(12)
        assert not stand.ran
        stand.reopen()
        stand.until(stand.ran_all(*HELD), "they ran")
        assert set(stand.ran.values()) == {1}
        stand.until_held(0)
        assert stand.inspect()["prefetch_more"] == 0
    finally:
        stand.close()
