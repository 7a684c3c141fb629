"""One run of Celery's integration suite."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.docs.scene import environment
from tests.interop.place import SUITE, Absent, Place, servers

PLUGIN = Path(__file__).with_name("interop_plugin.py")
IGNORED = ("test_backend.py",)
"""Needs Azure's packages, and a service of theirs."""
OURS = {
    "pecker redis guard",
    "pecker runs",
    "pecker scheduler",
    "sharding executor",
    "throttle",
}
"""Labels of the steps that a run with ours must have had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a run of the suite told."""

    outcomes: dict[str, str] = field(default_factory=dict)
    steps: frozenset[str] = frozenset()
    info: dict[str, Any] = field(default_factory=dict)
    log: Path


def run(  # noqa: PLR0913 — what a run is made of
    place: Place,
    name: str,
    *,
    ours: bool,
    broker: str | None,
    tests: Sequence[str] = (),
    words: Sequence[str] = (),
    limit: float,
) -> Run:
    """Run the suite, or some of its tests.

    Args:
        place: Where.
        name: Of its files in the place's folder.
        ours: Whether the worker has our steps.
        broker: An address; else the run's own Redis.
        tests: Node ids; else all.
        words: Further words for pytest.
        limit: Seconds.

    Raises:
        Absent: It was not over in time, or told nothing.
    """
    results, log = (place.folder / f"{name}.{end}" for end in ("jsonl", "log"))
    with servers() as (postgres, redis), log.open("wb") as sink:
        variables = {
            **environment(place.python),
            "PYTHONPATH": str(PLUGIN.parent),
            "TEST_BROKER": broker or redis.url_of(0),
            "TEST_BACKEND": redis.url_of(1),
            "REDIS_HOST": "127.0.0.1",
            "REDIS_PORT": str(redis.port),
            "INTEROP_RESULTS": str(results),
        }
        if ours:
            variables |= {
                "INTEROP_DSN": postgres.dsn,
                "INTEROP_REDIS": redis.url_of(2),
            }
            migrate(place.python, postgres.dsn)
        try:
            subprocess.run(
                [
                    *(place.python, "-m", "pytest", "-q", "-p", PLUGIN.stem),
                    *("-p", "celery.contrib.pytest", "-p", "no:cacheprovider"),
                    "--tb=native",  # pytest's own breaks at tracebacks of recursions
                    *(f"--ignore={SUITE}/{name}" for name in IGNORED),
                    *(*words, *(tests or [SUITE])),
                ],
                cwd=place.source,
                env=variables,
                stdout=sink,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            message = f"the run {name} was not over after {limit:g} s; see {log}"
            raise Absent(message) from None
    return read(results, log)


def migrate(python: Path, dsn: str) -> None:
    """Make the tables, as a user does."""
    app = python.parent / "interop_app.py"
    app.write_text(
        f"from celery import Celery\napp = Celery('x')\napp.conf.pecker_dsn = {dsn!r}\n"
    )
    subprocess.run(
        [python, "-m", "celery", "-A", "interop_app", "pecker", "migrate"],
        cwd=app.parent,
        env={**environment(python), "PYTHONPATH": os.fspath(app.parent)},
        stdout=sys.stderr.fileno(),
        check=True,
    )


def read(results: Path, log: Path) -> Run:
    """Return what the plugin wrote."""
    lines = results.read_text().splitlines() if results.exists() else []
    told = [json.loads(line) for line in lines]
    if not any("test" in line for line in told):
        message = f"no test was run; the end of {log}:\n{log.read_text()[-2000:]}"
        raise Absent(message)
    return Run(
        outcomes={line["test"]: line["outcome"] for line in told if "test" in line},
        steps=frozenset(
            step for line in told if "steps" in line for step in line["steps"]
        ),
        info={k: v for line in told if "info" in line for k, v in line["info"].items()},
        log=log,
    )
