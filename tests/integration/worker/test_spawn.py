"""A pool whose processes are fresh interpreters."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.worker.crew import Crew

pytestmark = pytest.mark.cluster


def test_runs_are_guarded_in_a_pool_that_spawns(
    crews: Callable[..., Crew], dsn: str, redis_url: str
) -> None:
    """Nothing that the worker wrapped is wrapped there: no run was ended."""
    crew = crews("spawned", dsn=dsn, broker=redis_url)
    crew.worker(
        "prefork",
        worker_pool_start_method="spawn",
        beat_schedule={
            "hung": {"task": "hangs", "schedule": 1.0, "pecker": {"timeout": 0.5}}
        },
    )
    crew.until(lambda: crew.ran(2, "hung"), "its runs end with their deadline")
