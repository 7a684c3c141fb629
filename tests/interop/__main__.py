"""Celery's own integration suite, plain and with all of our steps: the same results?

    make interop
    .venv/bin/python -m tests.interop --resume
    .venv/bin/python -m tests.interop --broker amqp://guest:guest@127.0.0.1// -k canvas

The source of the installed Celery is fetched by pip (its archive has the suite), and
an environment is made with the wheel of this checkout. There each part of the suite is
run twice, side by side, each time against servers of its own: plain; and with every
step of ours in the session's worker: `pecker_worker`, runs, the guard on Redis, sharded
jobs, and a gate that is asked for each task. Each outcome is written down as its test
ends, in `build/interop/results`; a run that was cut goes on there with `--resume`.
Tests that differ are run again, alone, both ways, until both had the same outcome once,
at most three times. What still differs is listed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import rmtree

from rich.console import Console
from rich.table import Table

from celery_pecker.kernel.clock import SYSTEM
from tests.interop.place import CACHE, Absent, Place, python, source
from tests.interop.suite import OURS, Suite, Told, collect

KINDS = ("plain", "ours")
RESULTS = CACHE / "results"
PART = 40
"""Tests that share a worker and its servers."""
TRIES = 3
BEGAN = SYSTEM.monotonic()


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
        "--resume", action="store_true", help="keep the outcomes of a run that was cut"
    )
    parser.add_argument(
        "--jobs", type=int, default=4, help="runs at a time (4); 1 with a broker"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=300,
        help="for one test (300, as Celery has it)",
    )
    return parser.parse_args()


def say(text: str) -> None:
    """Show a line, after the seconds since the start."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{SYSTEM.monotonic() - BEGAN:6.0f} s  {text}", markup=False)


def counted(outcomes: Mapping[str, str]) -> str:
    """Return how many tests had which outcome."""
    counts = Counter(outcomes.values())
    return ", ".join(
        f"{number} {outcome}" for outcome, number in sorted(counts.items())
    )


class Pair:
    """The suite in both ways."""

    def __init__(self, asked: argparse.Namespace, place: Place) -> None:
        """Prepare both; see `arguments`."""
        self._suites = {
            kind: Suite(
                place=place,
                ours=kind == "ours",
                broker=asked.broker,
                seconds=asked.seconds,
            )
            for kind in KINDS
        }
        # Two workers of one queue would take each other's tasks.
        self._jobs = 1 if asked.broker else asked.jobs

    def run(self, name: str, parts: Sequence[Sequence[str]]) -> dict[str, list[Told]]:
        """Run parts both ways, several at a time; return what each told."""
        with ThreadPoolExecutor(self._jobs) as pool:
            futures = [
                {
                    kind: pool.submit(self._part, kind, f"{name}-{number:02}", part)
                    for kind in KINDS
                }
                for number, part in enumerate(parts)
            ]
            return {kind: [pair[kind].result() for pair in futures] for kind in KINDS}

    def _part(self, kind: str, name: str, tests: Sequence[str]) -> Told:
        began = SYSTEM.monotonic()
        told = self._suites[kind].run(tests, RESULTS / f"{name}-{kind}.jsonl")
        took = SYSTEM.monotonic() - began
        slowest = max(tests, key=lambda test: told.seconds[test])
        say(
            f"{kind} {name}: {counted(told.outcomes)} in {took:.0f} s, longest "
            f"{told.seconds[slowest]:.0f} s {slowest.rpartition('::')[2]}"
        )
        return told


def main(folder: Path) -> int:
    """Return 0 when both runs had the same results."""
    asked = arguments()
    if not asked.resume:
        rmtree(RESULTS, ignore_errors=True)
    RESULTS.mkdir(parents=True, exist_ok=True)
    say("fetching Celery's source, making an environment")
    place = Place(source=source(folder, asked.source), python=python(folder))
    tests = collect(place, ["-k", asked.only] if asked.only else [])
    say(f"{len(tests)} tests; outcomes go to {RESULTS}")
    pair = Pair(asked, place)
    parts = [tests[start : start + PART] for start in range(0, len(tests), PART)]
    runs = pair.run("part", parts)
    steps = set[str]().union(*(told.steps for told in runs["ours"]))
    if missing := OURS - steps - ({"pecker redis guard"} if asked.broker else set()):
        say(f"the worker had no step {', '.join(sorted(missing))}: nothing is compared")
        return 1
    say(f"our worker: {runs['ours'][-1].info}")
    seen: dict[str, dict[str, list[str]]] = {
        kind: {
            test: [outcome]
            for told in runs[kind]
            for test, outcome in told.outcomes.items()
        }
        for kind in KINDS
    }
    for kind in KINDS:
        last = {test: outcomes[0] for test, outcomes in seen[kind].items()}
        say(f"{kind}: {counted(last)}")
    for number in range(TRIES):
        if bad := differing(seen, tests):
            say(f"{len(bad)} tests differ: again, alone")
            for kind, told in pair.run(
                f"again{number}", [[test] for test in bad]
            ).items():
                for test, one in zip(bad, told, strict=True):
                    seen[kind][test].append(one.outcomes[test])
    show(seen, tests)
    bad = differing(seen, tests)
    say(f"{len(tests)} tests, {len(bad)} with another result with our steps")
    return 1 if bad else 0


def differing(
    seen: Mapping[str, Mapping[str, Sequence[str]]], tests: Sequence[str]
) -> list[str]:
    """Return the tests that never had the same outcome both ways."""
    plain, ours = (seen[kind] for kind in KINDS)
    return [test for test in tests if not {*plain[test]} & {*ours[test]}]


def show(seen: Mapping[str, Mapping[str, Sequence[str]]], tests: Sequence[str]) -> None:
    """Show the tests that did not pass each time, both ways."""
    table = Table("test", *KINDS)
    for test in tests:
        row = [seen[kind][test] for kind in KINDS]
        if {*row[0], *row[1]} - {"passed", "skipped"} or row[0] != row[1]:
            table.add_row(test, *(", ".join(outcomes) for outcomes in row))
    Console(highlight=False, width=160).print(table)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="pecker-interop-") as directory:
        # Servers that root starts run as somebody else, who must get through.
        Path(directory).chmod(0o711)
        try:
            code = main(Path(directory))
        except Absent as error:
            sys.exit(f"interop: {error}")
        except KeyboardInterrupt:
            say("cut; --resume goes on")
            os._exit(130)  # threads still wait for their runs
    sys.exit(code)
