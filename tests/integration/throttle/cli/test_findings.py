"""What the page *Now* and ``doctor`` find at the gate."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from celery_pecker.surfaces.cli import pecker
from celery_pecker.testing import free_port
from tests.command_line import Line, lines
from tests.integration.throttle.cli.conftest import LIMITS
from tests.integration.throttle.crew import Crew
from throttle.overview import open_store
from throttle.settings import Settings


@pytest.fixture
def make_now(dsn: str) -> Iterator[Callable[[str], Line]]:
    """Give a function that makes the command line of an app with a gate."""
    schedule = {"tick": {"task": "proj.tick", "schedule": 1.0}}  # and nobody claims it
    gate = {"throttle_limits": LIMITS, "throttle_estimator": "fast"}
    with lines(pecker, beat_schedule=schedule, **gate) as make:
        yield lambda url: make(dsn, throttle_redis_url=url)


def found(line: Line) -> dict[str, Any]:
    """Return what is found, by its check."""
    return {one["check"]: one for one in line.json("now", code=1)["causes"]}


def test_a_limit_that_holds_tasks_is_worth_a_look(
    make_now: Callable[[str], Line], redis_url: str, crew: Crew
) -> None:
    """Not wrong: it is what the gate is there for; one without a worker is, too."""
    del crew
    causes = found(make_now(redis_url))
    held = causes["held tasks main"]
    chart = "history?of=limit&name=main&since=1h"
    assert (held["grade"], held["opens"]) == ("warn", chart)
    assert "before 'main': 40 tasks wait" in held["text"]
    assert "no worker holds to its limit" in causes["limit quiet"]["text"]
    assert "throttle store" not in causes


def test_a_limit_that_is_not_kept_is_wrong(
    make_now: Callable[[str], Line], redis_url: str, crew: Crew
) -> None:
    """What is above it is said, and where it comes from."""
    del crew
    line = make_now(redis_url)
    line.app.conf.throttle_limits = {"main": 100}
    over = found(line)["limit main"]
    assert over["grade"] == "fail"
    assert "above its limit" in over["text"]


def test_tasks_that_no_meter_counts_are_named(
    make_now: Callable[[str], Line], redis_url: str
) -> None:
    """Their runs were seen, and none of them cost anything: the gate counts nothing."""
    line = make_now(redis_url)
    costs = {"proj.free": [0.0, 0.0, 0.0, 0.0, 0.1, 9], "proj.paid": [3, 0, 0, 0, 1, 9]}
    store = open_store(Settings.read(line.app.conf))
    store.keep("quiet", json.dumps(costs), 60.0)
    store.close()
    unmetered = found(line)["unmetered quiet"]
    assert "proj.free" in unmetered["text"]
    assert "proj.paid" not in unmetered["text"]


def test_a_redis_that_is_away_is_one_of_the_causes(
    make_now: Callable[[str], Line],
) -> None:
    """And keeps the look from nothing else: each question waits half a second."""
    causes = found(make_now(f"redis://127.0.0.1:{free_port()}/0"))
    assert causes["throttle store"]["grade"] == "fail"
    assert "(safe)" in causes["throttle store"]["advice"]
    assert "schedulers" in causes


def test_a_wrong_limit_is_named(
    make_now: Callable[[str], Line], redis_url: str
) -> None:
    """As a worker would be refused for it."""
    line = make_now(redis_url)
    line.app.conf.throttle_limits = {"main": -1}
    assert "throttle_limits['main']" in found(line)["throttle settings"]["text"]
