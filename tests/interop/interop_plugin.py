"""What pytest loads in Celery's own suite: outcomes of tests, and our steps if asked.

Loaded there by ``-p``, in an environment that has the wheel of celery-pecker. Settings
come by the environment, since Celery's suite has no place for them:

    INTEROP_RESULTS   a file: a line of JSON as each test begins and ends
    INTEROP_SECONDS   how long a test may take
    INTEROP_DSN       the tables; with it the session's worker has all of our steps
    INTEROP_REDIS     where throttle counts
    INTEROP_PASSWORD  of REDIS_HOST, for which Celery's suite knows none
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery
from celery.contrib.testing.worker import test_worker_started as worker_started

DSN = os.environ.get("INTEROP_DSN", "")
RESULTS = Path(os.environ["INTEROP_RESULTS"])
SECONDS = float(os.environ["INTEROP_SECONDS"])
_workers: list[Any] = []


class Client(redis.StrictRedis):
    """Knows the password of the Redis that the suite looks into."""

    def __init__(self, *words: Any, **options: Any) -> None:
        options.setdefault("password", os.environ.get("INTEROP_PASSWORD"))
        super().__init__(*words, **options)


redis.StrictRedis = Client


def everything(*_: object) -> str:
    """Say that every task goes to the one database: the gate is asked for each."""
    return "main"


@pytest.fixture(scope="session", autouse=True)
def steps(celery_session_app: Celery) -> None:
    """Give the app of the session's worker all of our steps."""
    app = celery_session_app
    if DSN:
        from celery_pecker.worker import install  # noqa: PLC0415 — plain has none
        from celery_sharding import Sharding  # noqa: PLC0415
        from throttle import Throttle  # noqa: PLC0415

        app.conf.update(pecker_dsn=DSN, pecker_worker={"scheduler"})
        install(app)
        Sharding(app)
        Throttle(
            app,
            redis_url=os.environ["INTEROP_REDIS"],
            limits={"main": 1_000_000},
            route=f"{__name__}.everything",
        )


@worker_started.connect(weak=False)
def started(worker: Any, **_: object) -> None:
    """Keep the worker, and say which steps it has."""
    _workers.append(worker)
    write({"steps": sorted(_labels(worker))})


def _labels(worker: Any) -> Iterator[str]:
    for parent in (worker, worker.consumer):
        for step in parent.steps:
            yield getattr(step, "label", None) or step.alias


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Bound each test, also those that have a longer limit of their own."""
    for item in items:
        item.add_marker(pytest.mark.timeout(SECONDS, method="signal"), append=False)


def pytest_runtest_logstart(nodeid: str) -> None:
    """Say which test began: who watches counts it as hung if nothing follows."""
    write({"began": nodeid})


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Ask the worker what it did, while it lives."""
    del item
    if nextitem is None and _workers:
        worker = _workers[0]
        info = {**worker.blueprint.info(worker)}
        info.update(worker.consumer.blueprint.info(worker.consumer))
        write({"info": {key: info.get(key) for key in ("celery_pecker", "throttle")}})


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the last outcome of a test; a teardown that fails is an error of it."""
    outcome: str = report.outcome
    if report.when != "call":
        if outcome == "passed":
            return
        outcome = "skipped" if outcome == "skipped" else "error"
    elif hasattr(report, "wasxfail"):
        outcome = "xfailed" if outcome == "skipped" else "xpassed"
    # At once: what a crash of pytest leaves can still be compared.
    write({"test": report.nodeid, "outcome": outcome, "seconds": report.duration})


def write(line: dict[str, object]) -> None:
    """Add a line to the results."""
    with RESULTS.open("a") as file:
        file.write(json.dumps(line, default=str) + "\n")
