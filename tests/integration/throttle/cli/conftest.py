"""The command line, run in this process on a real Redis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.command_line import Line, lines
from tests.integration.throttle.crew import Crew
from throttle.cli import throttle
from throttle.model import Amount, Holding

LIMITS: dict[str, Any] = {"main": {"operations": 5000, "seconds": 40}, "quiet": 100}
LIMIT = Amount(5000.0, 40.0, 0.0)


@pytest.fixture
def make_line() -> Iterator[Callable[..., Line]]:
    """Give a function that makes a command line for an app with these settings."""
    with lines(throttle, throttle_estimator="fast") as make:
        yield make


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
