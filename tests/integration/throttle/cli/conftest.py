"""The command line, run in this process on a real Redis."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery import Celery
from celery.bin.base import CLIContext
from click.testing import CliRunner, Result

from tests.integration.throttle.crew import Crew
from throttle.cli import throttle
from throttle.model import Amount, Holding

LIMITS: dict[str, Any] = {"main": {"operations": 5000, "seconds": 40}, "quiet": 100}
LIMIT = Amount(5000.0, 40.0, 0.0)


class Line:
    """``celery -A proj throttle …`` on one app."""

    def __init__(self, app: Celery) -> None:
        self.app = app

    def __call__(self, *words: str) -> Result:
        """Run a command; return its output and exit code."""
        context = CLIContext(app=self.app, no_color=True, workdir=None)
        result = CliRunner().invoke(throttle, words, obj=context)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def json(self, *words: str, code: int = 0) -> Any:
        """Run a command with --json; return its document."""
        result = self(*words, "--json")
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)


@pytest.fixture
def make_line() -> Iterator[Callable[..., Line]]:
    """Give a function that makes a command line for an app with these settings."""
    made: list[Celery] = []

    def make(**conf: Any) -> Line:
        app = Celery("proj", set_as_current=False)
        app.conf.update(broker_url="memory://", throttle_estimator="fast")
        app.conf.update(conf)
        made.append(app)
        return Line(app)

    yield make
    for app in made:
        app.close()


@pytest.fixture
def line(redis_url: str, make_line: Callable[..., Line]) -> Line:
    """Give the command line of an app with two limits."""
    return make_line(throttle_redis_url=redis_url, throttle_limits=LIMITS)


def holding(held: int) -> Holding:
    """Return what a worker says that holds so many tasks."""
    return Holding(
        want=1.0 if held else 0.1,
        limit=LIMIT,
        held=held,
        held_bytes=2_000 * held,
        admitted=70,
        oldest=3.5,
        tenants={"acme": (held, 70)},
    )


@pytest.fixture
def crew(redis_url: str) -> Iterator[Crew]:
    """Give two workers, one of which holds tasks, and a web server."""
    workers = {"w1@node": {"main": holding(40)}, "w2@node": {"main": holding(0)}}
    with Crew(redis_url, workers, {"main": 2000.0}, {"main": 500.0}) as crew:
        yield crew
