"""The command line, run in this process on real tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery.schedules import crontab

from celery_pecker.surfaces.cli import pecker
from tests.command_line import Line, lines

SCHEDULE: dict[str, Any] = {
    "tick": {"task": "proj.tick", "schedule": 1.0},
    "hourly": {"task": "proj.hourly", "schedule": 3600.0},
    "daily [bold]": {"task": "proj.daily", "schedule": crontab(hour=5, minute=30)},
    "timed": {"task": "proj.tick", "schedule": 10.0, "pecker": {"timeout": 5.0}},
}


@pytest.fixture
def make_line(tmp_path: Path) -> Iterator[Callable[..., Line]]:
    """Give a function that makes a command line for an app with these settings."""
    with lines(
        pecker,
        pecker_heartbeat_dir=str(tmp_path / "beats"),
        pecker_database_timeout=1.0,
        beat_schedule=SCHEDULE,
        timezone="Europe/Berlin",
    ) as make:
        yield make


@pytest.fixture
def line(dsn: str, make_line: Callable[..., Line]) -> Line:
    """Give the command line of an app whose tables are there."""
    return make_line(dsn)
