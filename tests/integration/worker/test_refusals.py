"""A worker does not start, or go on, as a scheduler that cannot be one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from celery_pecker.kernel.migrations import migrate
from celery_pecker.testing import EmbeddedPostgres
from tests.integration.worker.crew import Crew

pytestmark = pytest.mark.cluster

Crews = Callable[..., Crew]

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a": (
        {"pecker_worker": True},
        "pecker_worker must be a set of 'scheduler', 'outbox' and 'observers', not",
    ),
    "b": ({"pecker_schema": "elsewhere"}, "are not in schema 'elsewhere'"),
    "c": (
        {"beat_schedule": {"x": {"task": "ran", "schedule": 1, "pecker": {"fast": 1}}}},
        "beat_schedule['x']['pecker'] has no policy 'fast'",
    ),
    "d": (
        {
            "beat_schedule": {
                "x": {"task": "other", "schedule": 1, "pecker": {"run": "local"}}
            }
        },
        "this worker knows no task 'other'",
    ),
}


def test_it_does_not_start_with_what_is_wrong(
    crews: Crews, dsn: str, redis_url: str
) -> None:
    """One line says what is, as beat says it; nothing was started."""
    started = {
        said: crews(name, dsn=dsn, broker=redis_url).worker(
            "prefork", wait=False, **conf
        )
        for name, (conf, said) in WRONG.items()
    }
    for said, process in started.items():
        assert process.wait(30) == 1
        log = process.life_log()
        [line] = [line for line in log.splitlines() if line.startswith("Error: ")]
        assert said in line
        assert "Traceback" not in log
        assert "celery@" not in log


def test_it_ends_when_it_learns_that_it_cannot_be_one(
    crews: Crews, own_postgres: Callable[..., EmbeddedPostgres], redis_url: str
) -> None:
    """PostgreSQL was away at the start, and comes back as another app's."""
    server = own_postgres(fast=True)
    crew = crews("late", dsn=server.dsn, broker=redis_url)
    migrate(server.dsn, schema="taken")
    other = crew.worker("solo", pecker_schema="taken", pecker_app="other")
    other.stop()
    server.stop()
    worker = crew.worker("prefork", wait=False, pecker_schema="taken")
    crew.until(lambda: "ready." in worker.life_log(), "tasks need no schedules")
    assert "the worker starts without its schedules" in worker.life_log()
    server.start()
    crew.until(lambda: worker.exit_code is not None, "it ended", 20)
    assert worker.exit_code == 1
    assert "the worker ends, since its scheduler has ended" in worker.life_log()
    assert "belongs to app 'other'" in worker.life_log()
    assert "Traceback" not in worker.life_log()
