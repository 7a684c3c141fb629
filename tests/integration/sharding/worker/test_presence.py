"""The reports of a live worker go on, whatever its pool answers."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from celery_pecker.testing import eventually
from celery_sharding.runner.shard_worker import ShardWorker
from celery_sharding.worker.step import Presence
from tests.integration.sharding.worker.conftest import Jobs


class BrokenPool:
    """A pool whose list of processes cannot be read."""

    looks = 0

    @property
    def _pool(self) -> Any:
        self.looks += 1
        message = "the pool is in no state to be asked"
        raise RuntimeError(message)


def test_a_pool_that_cannot_be_looked_at_ends_no_heartbeat(
    jobs: Callable[..., Jobs],
) -> None:
    """Without heartbeats the others take over the shards of a worker that runs."""
    made, pool = jobs(), BrokenPool()
    worker = SimpleNamespace(app=made.app, pool=pool, concurrency=2)
    presence = Presence(worker, ShardWorker("w1@test", "threads"))
    presence.start()
    try:
        eventually(lambda: pool.looks > 2, 30.0, "it looks once more")
        assert made.rows("select count(*) from pecker_executors") == [(1,)]
    finally:
        presence.join(patient=True)
    assert made.rows("select count(*) from pecker_executors") == [(0,)]
