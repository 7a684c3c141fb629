"""What a sharded task promises holds in every pool, on real workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from celery_pecker.testing import eventually
from celery_sharding import JobDeadlineExceeded
from tests.integration.sharding.worker.conftest import Jobs

pytestmark = [
    pytest.mark.cluster,
    # Celery's backend calls what redis-py would have called otherwise.
    pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning"),
]
Make = Callable[..., Jobs]


@pytest.mark.parametrize("pool", ["gevent", "threads", "solo"])
def test_a_job_runs_through_with_retries_notify_and_post(jobs: Make, pool: str) -> None:
    """Items that fail once are tried again; a second job meets its deadline."""
    made = jobs()
    made.worker("-P", pool, "-c", "4")
    whole: Any = made.app.tasks["jobs.whole"]
    result = whole.delay([*range(20)])
    assert result.get(timeout=40.0) == sum(range(20))
    expected = {f"item {n}": 1 + n % 2 for n in range(20)}
    expected |= {"notify 0.5": 1, "notify 1.0": 1, "post": 1}
    assert made.seen() == expected

    late = (
        whole.s()
        .set(sharding={"deadline": 1.5})
        .apply_async(([*range(100, 200)],), {"pace": 0.1})
    )
    with pytest.raises(JobDeadlineExceeded):
        late.get(timeout=40.0)
    eventually(lambda: not made.held(), 30.0, "nobody goes on with it")
    assert made.seen()["post"] == 1
