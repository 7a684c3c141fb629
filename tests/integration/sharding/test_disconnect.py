"""What a test leaves behind of an app that has asked for results."""

from __future__ import annotations

import gc
from contextlib import suppress
from typing import Any

import redis
from celery import Celery
from celery.exceptions import TimeoutError as NoResult

from tests.integration.sharding.disconnect import disconnect


def ask_and_leave(url: str) -> None:
    """Wait for a result in vain, and end; what it leaves is in a circle."""
    app = Celery("late", broker=url, backend=url, set_as_current=False)
    result = app.send_task("nobody.runs.it")
    with suppress(NoResult):
        result.get(timeout=0.3)
    disconnect(app)


def test_a_result_that_is_collected_late_connects_no_more(redis_url: str) -> None:
    """It would unsubscribe, on a connection made for that, which nobody closes."""
    with redis.Redis.from_url(redis_url) as client:
        gc.disable()
        try:
            ask_and_leave(redis_url)
            before: Any = client.info("stats")
        finally:
            gc.enable()
        gc.collect()
        after: Any = client.info("stats")
    made = "total_connections_received"
    assert after[made] == before[made]
