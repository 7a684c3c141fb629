"""A short job ends in the process that began it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from celery_sharding.messages import WORK
from tests.integration.sharding.worker.conftest import Jobs

pytestmark = [
    pytest.mark.cluster,
    # Celery's backend calls what redis-py would have called otherwise.
    pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning"),
]
Make = Callable[..., Jobs]


def test_jobs_that_wait_end_one_after_the_other(jobs: Make) -> None:
    """Each stage of one would else wait behind the same stage of all others."""
    made = jobs()
    results = [made.app.tasks["jobs.posted"].delay([1, 2, 3]) for _ in range(3)]
    worker = made.worker("-P", "solo")
    assert [result.get(timeout=40.0) for result in results] == [6, 6, 6]
    assert f"Task {WORK}[" not in worker.life_log()
    times = made.rows("select planned_at, decided_at from pecker_jobs order by job")
    ends = [ended for _, ended in times]
    assert all(end <= begun for end, (begun, _) in zip(ends, times[1:], strict=False))
    assert made.held() == 0


def test_a_time_limit_of_the_worker_keeps_shards_in_messages_of_their_own(
    jobs: Make,
) -> None:
    """It is for PreProcess and Post, and would end innocent items."""
    made = jobs(task_time_limit=60)
    result = made.app.tasks["jobs.posted"].delay([1, 2, 3])
    worker = made.worker("-P", "prefork", "-c", "1")
    assert result.get(timeout=40.0) == 6
    assert f"Task {WORK}[" in worker.life_log()
