"""The command line, run in this process on real tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.bin.base import CLIContext
from celery.schedules import crontab
from click.testing import CliRunner, Result

from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.schedules import declarations
from celery_pecker.surfaces.cli import pecker
from celery_pecker.testing.manual import ManualClock, ManualPecker

SCHEDULE: dict[str, Any] = {
    "tick": {"task": "proj.tick", "schedule": 1.0},
    "hourly": {"task": "proj.hourly", "schedule": 3600.0},
    "daily [bold]": {"task": "proj.daily", "schedule": crontab(hour=5, minute=30)},
    "timed": {"task": "proj.tick", "schedule": 10.0, "pecker": {"timeout": 5.0}},
}


class Line:
    """``celery -A proj pecker …`` on one app."""

    def __init__(self, app: Celery) -> None:
        self.app = app

    def __call__(self, *words: str) -> Result:
        """Run a command; return its output and exit code."""
        context = CLIContext(app=self.app, no_color=True, workdir=None)
        result = CliRunner().invoke(pecker, words, obj=context)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def json(self, *words: str, code: int = 0) -> Any:
        """Run a command with --json; return its document."""
        result = self(*words, "--json")
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)

    def replica(self, clock: ManualClock | None = None) -> ManualPecker:
        """Return a scheduler of the app that the test turns by hand, at this time."""
        beat_schedule = declarations.BeatSchedule(self.app)
        entries = declarations.entries(
            beat_schedule.schedule, self.app, conf=self.app.conf
        )
        return ManualPecker(
            entries,
            dsn=self.app.conf.pecker_dsn,
            clock=clock or ManualClock(SYSTEM.now()),
        )


@pytest.fixture
def make_line(tmp_path: Path) -> Iterator[Callable[..., Line]]:
    """Give a function that makes a command line for an app with these settings."""
    made: list[Celery] = []

    def make(dsn: str, **conf: Any) -> Line:
        app = Celery("proj", set_as_current=False)
        app.conf.update(
            pecker_dsn=dsn,
            pecker_heartbeat_dir=str(tmp_path / "beats"),
            pecker_database_timeout=1.0,
            broker_url="memory://",
            beat_schedule=SCHEDULE,
            timezone="Europe/Berlin",
        )
        app.conf.update(conf)
        made.append(app)
        return Line(app)

    yield make
    for app in made:
        app.close()


@pytest.fixture
def line(dsn: str, make_line: Callable[..., Line]) -> Line:
    """Give the command line of an app whose tables are there."""
    return make_line(dsn)
