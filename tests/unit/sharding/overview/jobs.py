"""Jobs at one moment, as the ledger would tell them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from celery_sharding.ledger.rows import JobRow
from celery_sharding.model import Stage

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def job_row(*, after: float = 0.0, **given: Any) -> JobRow:
    """Return a job that runs, so many seconds after the first look."""
    known: dict[str, Any] = {
        "now": NOW + timedelta(seconds=after),
        "job": 1,
        "leading": 1,
        "task_id": "a",
        "leader": None,
        "task": "proj.import_rows",
        "key": None,
        "stage": Stage.SHARDING,
        "outcome": None,
        "run": 1,
        "paused": False,
        "concurrency": 4,
        "layer": 0,
        "layers": 2,
        "total": 1_000,
        "done": 100,
        "failed": 0,
        "options": {},
        "error": None,
        "submitted_at": NOW - timedelta(seconds=60),
        "planned_at": NOW - timedelta(seconds=55),
        "started_at": NOW - timedelta(seconds=50),
        "closed_at": None,
        "decided_at": None,
        "ended_at": None,
        "deadline_at": None,
        "held": 2,
        "executors": 1,
        "holder": None,
        "attempts": 0,
    }
    return JobRow(**{**known, **given})
