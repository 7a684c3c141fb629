"""Repeat the whole suite for hours, and list the tests that failed, with how often.

    make soak HOURS=2
    .venv/bin/python -m tests.soak --hours 0.5 tests/chaos tests/integration/beat

Each run has another order, all tests that are marked soak, many examples of each law
and longer chaos; no test is tried again. The exit code is 1 if a test failed. Outcomes
and outputs of the runs stay in build/soak.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from celery_pecker.kernel.clock import SYSTEM
from tests.soak.plugin import OUTCOMES
from tests.soak.tally import Tallies

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "soak"
ENDS_WITHIN = 120.0
"""Seconds for a run that is interrupted: it closes its servers."""
LONGER = {
    "HYPOTHESIS_PROFILE": "soak",
    "PECKER_CHAOS_SLOTS": "1200",
    "PECKER_CHAOS_SEEDS": "3",
    "PECKER_CHAOS_EVENTS": "500",
    "PECKER_CHAOS_OBSERVERS": "2000",
    "PECKER_CHAOS_OUTBOX_EVENTS": "100",
    "PECKER_TEST_BROKER_AWAY": "60",
}
OPTIONS = (
    *("-q", "-ra", "--tb=native", "--timeout=1800", "-p", "tests.soak.plugin"),
    *("-W", "error::pytest.PytestUnraisableExceptionWarning"),
)


def arguments() -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak",
        description="Repeat the suite, and list the tests that failed.",
    )
    parser.add_argument("tests", nargs="*", default=["tests"], help="else all of them")
    parser.add_argument("--hours", type=float, default=1.0, help="how long (1)")
    parser.add_argument("--jobs", type=int, default=4, help="processes of a run (4)")
    return parser.parse_args()


def run(number: int, asked: argparse.Namespace, seconds: float) -> Path:
    """Run the suite once, at most so long; return the file of its outcomes."""
    outcomes = FOLDER / f"run-{number}.jsonl"
    outcomes.touch()
    seed = secrets.randbelow(2**31)
    command = [
        *(sys.executable, "-m", "pytest", *OPTIONS),
        *("-n", str(asked.jobs), "-p", "randomly", f"--randomly-seed={seed}"),
        *asked.tests,
    ]
    given = {key: os.environ.get(key, value) for key, value in LONGER.items()}
    with outcomes.with_suffix(".log").open("w", encoding="utf-8") as log:
        child = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **given, OUTCOMES: str(outcomes)},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            child.wait(seconds)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            child.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                child.wait(ENDS_WITHIN)
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
    return outcomes


def main() -> int:
    """Return 1 if a test failed in any run, or none ran at all."""
    asked = arguments()
    console = Console(highlight=False, soft_wrap=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    tallies, number = Tallies(), 0
    until = SYSTEM.monotonic() + asked.hours * 3600
    while (left := until - SYSTEM.monotonic()) > 0:
        number += 1
        outcomes = run(number, asked, left)
        lines = outcomes.read_text(encoding="utf-8").splitlines()
        tallies.add(lines)
        console.print(
            f"run {number}: {len(lines)} outcomes,"
            f" {len(tallies.failing)} tests failed so far; {outcomes}",
            markup=False,
        )
        if not lines:
            break  # nothing can be run: the log says why
    table = Table("test", "failed", "of", "")
    for name, one in tallies.failing:
        many = one.passed + one.failed
        kind = "flaky" if one.flaky else "red"
        table.add_row(escape(name), str(one.failed), str(many), kind)
    console.print(table if tallies.failing else "no test failed")
    return 0 if tallies.tests and not tallies.failing else 1


if __name__ == "__main__":
    raise SystemExit(main())
