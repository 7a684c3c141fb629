"""A broker that takes connections and refuses messages: nothing is sent."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from celery_pecker.kernel.database import Database
from celery_pecker.schedules.overview import Overview
from celery_pecker.testing import EmbeddedRedis
from tests.integration.worker.crew import Crew

pytestmark = pytest.mark.cluster

SCHEDULE = {
    "at most once": {"task": "ran", "schedule": 1.0},
    "at least once": {
        "task": "ran",
        "schedule": 1.0,
        "pecker": {"delivery": "at_least_once"},
    },
}


def test_the_pace_is_not_kept_while_nothing_is_sent(
    crews: Callable[..., Crew],
    dsn: str,
    own_redis: Callable[..., EmbeddedRedis],
) -> None:
    """All replicas live, each slot is won, and yet nothing runs; then all is well."""
    broker = own_redis().url
    crew = crews(
        "full", dsn=dsn, broker=broker, pecker_worker=[], beat_schedule=SCHEDULE
    )
    crew.beat()
    database = Database(dsn, schema=crew.name, timeout=5.0)
    overview = Overview(database)
    try:
        crew.until(lambda: overview.totals().counts["published"] >= 2, "it is sent")
        assert overview.totals().keeps_up
        with redis.Redis.from_url(broker) as client:
            # The sign of life before a claim is taken, the messages are not.
            client.execute_command("ACL SETUSER default -lpush -@scripting")
            crew.until(lambda: overview.totals().undelivered >= 1, "it is seen")
            pace = overview.totals()
            assert (pace.keeps_up, pace.replicas) == (False, 1)
            assert overview.failing()["at most once"].undelivered
            client.execute_command("ACL SETUSER default +@all")
        crew.until(lambda: overview.totals().keeps_up, "it is sent again", 60.0)
    finally:
        database.close()
