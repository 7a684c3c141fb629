"""What pytest loads in Celery's own suite: outcomes of tests, and our steps if asked.

Loaded there by ``-p``, in an environment that has the wheel of celery-pecker. Settings
come by the environment, since Celery's suite has no place for them:

    INTEROP_RESULTS   a file: a line of JSON for each test, and one for the worker
    INTEROP_DSN       the tables; with it the session's worker has all of our steps
    INTEROP_REDIS     where throttle counts
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, bootsteps

DSN = os.environ.get("INTEROP_DSN", "")
RESULTS = Path(os.environ["INTEROP_RESULTS"])
_workers: list[Any] = []


class Seen(bootsteps.StartStopStep):
    """Keeps the worker that it is a step of, so that it can be asked at the end."""

    def create(self, parent: Any) -> None:
        """Keep it."""
        _workers.append(parent)


def everything(*_: object) -> str:
    """Say that every task goes to the one database: the gate is asked for each."""
    return "main"


@pytest.fixture(scope="session", autouse=True)
def steps(celery_session_app: Celery) -> Iterator[None]:
    """Give the app of the session's worker all of our steps."""
    app = celery_session_app
    app.steps["worker"].add(Seen)
    if DSN:
        from celery_pecker.worker import install  # noqa: PLC0415 — plain has none
        from celery_sharding import Sharding  # noqa: PLC0415
        from throttle import Throttle  # noqa: PLC0415

        app.conf.update(pecker_dsn=DSN, pecker_worker=True)
        install(app)
        Sharding(app)
        Throttle(
            app,
            redis_url=os.environ["INTEROP_REDIS"],
            limits={"main": 1_000_000},
            route=f"{__name__}.everything",
        )
    yield
    write({"steps": sorted(_labels())})


def _labels() -> Iterator[str]:
    for worker in _workers:
        for parent in (worker, getattr(worker, "consumer", None)):
            for step in getattr(parent, "steps", ()):
                yield getattr(step, "label", None) or step.alias


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
    if report.outcome not in {"passed", "failed", "skipped"}:
        return  # it is run again
    outcome: str = report.outcome
    if report.when != "call":
        if outcome == "passed":
            return
        outcome = "skipped" if outcome == "skipped" else "error"
    elif hasattr(report, "wasxfail"):
        outcome = "xfailed" if outcome == "skipped" else "xpassed"
    # At once: what a crash of pytest leaves can still be compared.
    write({"test": report.nodeid, "outcome": outcome})


def write(line: dict[str, object]) -> None:
    """Add a line to the results."""
    with RESULTS.open("a") as file:
        file.write(json.dumps(line, default=str) + "\n")
