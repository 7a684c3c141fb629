"""A pool whose processes are fresh interpreters: nothing of the worker is theirs."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from celery_pecker.testing import eventually
from tests.integration.sharding.worker.conftest import Jobs

pytestmark = [
    pytest.mark.cluster,
    # Celery's backend calls what redis-py would have called otherwise.
    pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning"),
]


def test_a_pool_that_spawns_runs_shards_and_its_dead_are_seen(
    jobs: Callable[..., Jobs],
) -> None:
    """However long the lease: its processes hold in the worker's name."""
    made = jobs(sharding_lease=600.0, worker_pool_start_method="spawn")
    made.worker("-P", "prefork", "-c", "2")
    result = made.note.apply_async(([*range(60)],), {"pace": 0.05})
    eventually(lambda: len(made.seen()) > 10, 40.0, "it is in the middle")
    os.kill(made.pids()[-1], signal.SIGKILL)
    assert result.get(timeout=60.0) == {"total": 60, "done": 60, "failed": 0}
    assert {*made.seen()} == {str(item) for item in range(60)}
