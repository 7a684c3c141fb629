"""The message of a job in a worker: no longer there than it takes to begin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis
from celery.exceptions import TimeLimitExceeded

from celery_pecker.testing import eventually
from tests.integration.sharding.worker.conftest import Jobs

pytestmark = [
    pytest.mark.cluster,
    # Celery's backend calls what redis-py would have called otherwise.
    pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning"),
]


def test_post_holds_no_message_and_a_time_limit_fails_its_job_once(
    jobs: Callable[..., Jobs], redis_url: str
) -> None:
    """RabbitMQ ends the consumer that holds one for long; errbacks are called once."""
    made = jobs(task_time_limit=5.0, sharding_lease=2.0, constants={"resend": 1.0})
    made.worker("-P", "prefork", "-c", "1")
    posted: Any = made.app.tasks["jobs.posted"]
    blamed: Any = made.app.tasks["jobs.blamed"]
    result = posted.apply_async(([1],), {"pace": 60}, link_error=blamed.s())
    eventually(lambda: made.seen()["post"] == 1, 30.0, "Post runs")
    client: Any = redis.Redis.from_url(redis_url)
    eventually(
        lambda: client.hlen("unacked") == 0 and str(result.progress.stage) == "posting",
        30.0,
        "no message is held while it does",
    )
    with pytest.raises(TimeLimitExceeded):
        result.get(timeout=30.0)
    eventually(lambda: str(result.progress.stage) == "ended", 30.0, "it has ended")
    # Whoever comes next comes behind a second errback, if there is one.
    assert posted.apply_async(([1, 2],)).get(timeout=30.0) == 3
    assert made.seen() == {"post": 2, "blamed": 1}
