"""Celery's own integration suite, plain and with all of our steps: the same results?

    make interop
    .venv/bin/python -m tests.interop --broker amqp://guest:guest@127.0.0.1// -k canvas

The source of the installed Celery is fetched by pip (its archive has the suite), and
an environment is made with the wheel of this checkout. There the suite is run twice,
each time against a PostgreSQL and a Redis of its own: plain; and with every step of
ours in the session's worker: `pecker_worker`, runs, the guard on Redis, sharded jobs,
and a gate that is asked for each task. Tests that differ are run once more, alone, both
ways. What still differs is listed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from celery_pecker.kernel.clock import SYSTEM
from tests.interop.place import Absent, Place, python, source
from tests.interop.suite import OURS, Run, run

NONE = "-"


def arguments() -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.interop",
        description="Run Celery's integration suite plain and with our steps.",
    )
    parser.add_argument("--source", type=Path, help="the archive of Celery's source")
    parser.add_argument("--broker", help="its address; else a Redis of the run's own")
    parser.add_argument("-k", dest="only", help="tests whose names match, as of pytest")
    parser.add_argument(
        "--limit", type=float, default=3600, help="seconds for one run (3600)"
    )
    return parser.parse_args()


def differing(plain: Mapping[str, str], ours: Mapping[str, str]) -> list[str]:
    """Return the tests whose outcomes are not the same, or that are in one run only."""
    return sorted(
        test
        for test in {*plain, *ours}
        if plain.get(test, NONE) != ours.get(test, NONE)
    )


def counted(run: Run) -> str:
    """Return how many tests had which outcome."""
    counts = Counter(run.outcomes.values())
    return ", ".join(
        f"{number} {outcome}" for outcome, number in sorted(counts.items())
    )


def main(folder: Path) -> int:
    """Return 0 when both runs told the same."""
    asked = arguments()
    console = Console(highlight=False, soft_wrap=True)
    began = SYSTEM.monotonic()

    def say(text: str) -> None:
        console.print(f"{SYSTEM.monotonic() - began:6.0f} s  {text}", markup=False)

    say("fetching Celery's source, making an environment")
    place = Place(
        source=source(folder, asked.source), python=python(folder), folder=folder
    )
    words = ["-k", asked.only] if asked.only else []

    def runs(name: str, tests: list[str]) -> tuple[Run, Run]:
        pair = []
        for kind in ("plain", "ours"):
            say(f"running {len(tests) or 'all'} tests, {kind}")
            pair.append(
                run(
                    place,
                    f"{name}-{kind}",
                    ours=kind == "ours",
                    broker=asked.broker,
                    tests=tests,
                    words=words,
                    limit=asked.limit,
                )
            )
            say(f"{kind}: {counted(pair[-1])}")
        return pair[0], pair[1]

    plain, ours = runs("all", [])
    if (
        missing := OURS
        - ours.steps
        - ({"pecker redis guard"} if asked.broker else set())
    ):
        say(f"the worker had no step {', '.join(sorted(missing))}: nothing is compared")
        return 1
    say(f"our worker: {ours.info}")
    bad = differing(plain.outcomes, ours.outcomes)
    again = runs("again", bad) if bad else None
    still = 0
    table = Table("test", "plain", "ours", "again plain", "again ours")
    for test in bad:
        row = [one.outcomes.get(test, NONE) for one in (plain, ours, *(again or ()))]
        still += row[2] != row[3]
        table.add_row(test, *row)
    if bad:
        console.print(table)
    say(f"{len(plain.outcomes)} tests, {still} with another result with our steps")
    return 1 if still else 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="pecker-interop-") as directory:
        # Servers that root starts run as somebody else, who must get through.
        Path(directory).chmod(0o711)
        try:
            code = main(Path(directory))
        except Absent as error:
            sys.exit(f"interop: {error}")
    sys.exit(code)
