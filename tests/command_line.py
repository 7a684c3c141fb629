"""A group of commands, run in this process on one app."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from celery import Celery
from celery.bin.base import CLIContext
from click import Command
from click.testing import CliRunner, Result

from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.schedules.declarations import reading
from celery_pecker.schedules.declarations.beat_schedule import BeatSchedule
from celery_pecker.testing.manual import ManualClock, ManualPecker


class Line:
    """``celery -A proj GROUP …`` on one app."""

    def __init__(self, app: Celery, group: Command) -> None:
        self.app = app
        self._group = group

    def __call__(self, *words: str) -> Result:
        """Run a command; return its output and exit code."""
        context = CLIContext(app=self.app, no_color=True, workdir=None)
        result = CliRunner().invoke(self._group, words, obj=context)
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
        beat_schedule = BeatSchedule(self.app)
        entries = reading.entries(beat_schedule.schedule, self.app, conf=self.app.conf)
        return ManualPecker(
            entries,
            dsn=self.app.conf.pecker_dsn,
            clock=clock or ManualClock(SYSTEM.now()),
        )


@contextmanager
def lines(group: Command, **given: Any) -> Iterator[Callable[..., Line]]:
    """Give a function that makes a command line for an app with these settings."""
    made: list[Celery] = []

    def make(dsn: str | None = None, **conf: Any) -> Line:
        app = Celery("proj", set_as_current=False)
        app.conf.update(pecker_dsn=dsn, broker_url="memory://")
        app.conf.update(given)
        app.conf.update(conf)
        made.append(app)
        return Line(app, group)

    yield make
    for app in made:
        app.close()
