"""A connection that is lost while tasks are held, on each pool and each broker."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
import redis

from celery_pecker.kernel.clock import now
from tests.integration.throttle.worker.stand import Stand

pytestmark = pytest.mark.cluster

VISIBILITY_TIMEOUT = 3
HELD = [f"g{number}" for number in range(12)]


@pytest.mark.parametrize("pool", ["threads", "gevent", "solo"])
def test_each_held_task_runs_once(stand: Stand, redis_url: str, pool: str) -> None:
    """The broker cut the worker's connections; it holds again what it held."""
    worker = stand.start(pool=pool)
    stand.until_shut()
    stand.send("gated", *HELD[:6])
    stand.send("gated_late", *HELD[6:])
    stand.until_held(12)
    for times in (2, 3):
        stand.cut(redis_url)

        def again(count: int = 12 * times) -> bool:
            return bool(worker.life_log().count("] received") == count)

        stand.until(again, "it has them again")
    stand.until_held(12)
    stand.send("free", "f1")
    stand.until(stand.ran_all("f1"), "others pass")
    stand.reopen()
    stand.until(stand.ran_all(*HELD), "they ran")
    assert set(stand.ran.values()) == {1}
    stand.until_held(0)
    assert stand.inspect()["prefetch_more"] == 0


def test_a_killed_worker_leaves_what_it_held(either: Stand) -> None:
    """The broker hands it out again; on Redis after the visibility timeout."""
    broker = str(either.conf["broker_url"])
    either.conf["broker_transport_options"] = {"visibility_timeout": VISIBILITY_TIMEOUT}
    if not broker.startswith("redis"):
        del either.conf["broker_transport_options"]
    either.start()
    either.until_shut()
    either.send("gated", *HELD)
    either.until_held(12)
    os.killpg(either.workers[0].pid, signal.SIGKILL)
    either.until(lambda: either.workers[0].exit_code is not None, "it is dead")
    if broker.startswith("redis"):
        # A worker looks for such messages as it starts, and then not for 100 seconds
        either.until(lambda: overdue(broker), "they are overdue")
    either.start()
    either.reopen()
    either.until(either.ran_all(*HELD), "they ran", 60)
    assert set(either.ran.values()) == {1}


def overdue(broker: str) -> bool:
    """Say whether all that is unacknowledged has been so for longer than it may."""
    before = now().timestamp() - VISIBILITY_TIMEOUT
    with redis.Redis.from_url(broker) as client:
        index: Any = client.zrange("unacked_index", 0, -1, withscores=True)
    return len(index) == 12 and all(since < before for _, since in index)
