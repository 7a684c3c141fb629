"""Runs of Celery's integration suite, or of a part of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from celery_pecker.kernel.clock import SYSTEM
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
HUNG = "hung"
"""Outcome of a test in which pytest itself stood still, or died."""
SILENCE = 60.0
"""Seconds beyond a test's own limit after which pytest is taken for hung: its worker
is started and stopped in between."""
LOOK_INTERVAL = 0.5


@dataclass(slots=True)
class Told:
    """What runs have written into one file, which a later run goes on with."""

    file: Path
    outcomes: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    steps: set[str] = field(default_factory=set)
    info: dict[str, Any] = field(default_factory=dict)
    began: str = ""

    def read(self) -> Told:
        """Read the file anew."""
        text = self.file.read_text() if self.file.exists() else ""
        for line in map(json.loads, text.splitlines()):
            self.began = line.get("began", self.began)
            if "test" in line:
                self.outcomes[line["test"]] = line["outcome"]
                self.seconds[line["test"]] = line["seconds"]
            self.steps.update(line.get("steps", ()))
            self.info.update(line.get("info", {}))
        return self

    def left(self, tests: Sequence[str]) -> list[str]:
        """Return those of the tests that have no outcome."""
        return [test for test in tests if test not in self.outcomes]

    def hung(self, test: str) -> None:
        """Write down that a test did not come to an end."""
        with self.file.open("a") as file:
            line = {"test": test, "outcome": HUNG, "seconds": 0.0}
            file.write(json.dumps(line) + "\n")
        self.read()


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """How tests are run: plain, or with all of our steps."""

    place: Place
    ours: bool
    broker: str | None
    """An address; else a Redis of each part's own."""
    seconds: float
    """How long a test may take."""

    def run(self, tests: Sequence[str], results: Path) -> Told:
        """Run tests until each has an outcome.

        Those that the file has an outcome of are left out. Servers are new ones: what
        a hung test left in a queue meets no other.
        """
        told = Told(results).read()
        while left := told.left(tests):
            before = told.began, len(left)
            with self._variables(results) as variables:
                self._pytest(left, results, variables)
            left = told.read().left(tests)
            if (told.began, len(left)) == before:
                message = f"no test was run; see {results.with_suffix('.log')}"
                raise Absent(message)
            if told.began in left:
                told.hung(told.began)
        return told

    @contextmanager
    def _variables(self, results: Path) -> Iterator[dict[str, str]]:
        python = self.place.python
        with servers(postgres=self.ours) as (postgres, redis):
            variables = {
                **environment(python),
                "PYTHONPATH": str(PLUGIN.parent),
                "TEST_BROKER": self.broker or redis.url_of(0),
                "TEST_BACKEND": redis.url_of(1),
                "REDIS_HOST": "127.0.0.1",
                "REDIS_PORT": str(redis.port),
                "INTEROP_PASSWORD": redis.password,
                "INTEROP_RESULTS": str(results),
                "INTEROP_SECONDS": str(self.seconds),
            }
            if postgres is not None:
                variables |= {
                    "INTEROP_DSN": postgres.dsn,
                    "INTEROP_REDIS": redis.url_of(2),
                }
                migrate(python, postgres.dsn, results.with_suffix(""))
            yield variables

    def _pytest(
        self, tests: Sequence[str], results: Path, variables: dict[str, str]
    ) -> None:
        with results.with_suffix(".log").open("ab") as sink:
            process = subprocess.Popen(
                [*pytest(self.place), *tests],
                cwd=self.place.source,
                env=variables,
                stdout=sink,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # its worker's children end with it
            )
            try:
                self._watch(process, results)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _watch(self, process: subprocess.Popen[bytes], results: Path) -> None:
        size, since = -1, SYSTEM.monotonic()
        while process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_INTERVAL)
            now = results.stat().st_size if results.exists() else 0
            if now != size:
                size, since = now, SYSTEM.monotonic()
            elif SYSTEM.monotonic() - since > self.seconds + SILENCE:
                return


def pytest(place: Place) -> list[str]:
    """Return the words that run Celery's suite by pytest, without the tests' names."""
    return [
        *(str(place.python), "-m", "pytest", "-q", "-p", PLUGIN.stem),
        *(
            "-p",
            "celery.contrib.pytest",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:rerunfailures",
        ),
        "--tb=native",  # pytest's own breaks at tracebacks of recursions
    ]


def collect(place: Place, words: Sequence[str]) -> list[str]:
    """Return the names of the suite's tests.

    Raises:
        Absent: There are none.
    """
    done = subprocess.run(
        [
            *pytest(place),
            *("--collect-only", *words),
            *(f"--ignore={SUITE}/{name}" for name in IGNORED),
            SUITE,
        ],
        cwd=place.source,
        env={
            **environment(place.python),
            "PYTHONPATH": str(PLUGIN.parent),
            "INTEROP_RESULTS": os.devnull,
            "INTEROP_SECONDS": "1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    tests = [line for line in done.stdout.splitlines() if line.startswith(f"{SUITE}/")]
    if done.returncode or not tests:
        message = f"no test was collected:\n{done.stdout[-2000:]}"
        raise Absent(message)
    return tests


def migrate(python: Path, dsn: str, folder: Path) -> None:
    """Make the tables, as a user does."""
    folder.mkdir(exist_ok=True)
    app = folder / "interop_app.py"
    app.write_text(
        f"from celery import Celery\napp = Celery('x')\napp.conf.pecker_dsn = {dsn!r}\n"
    )
    subprocess.run(
        [python, "-m", "celery", "-A", "interop_app", "pecker", "migrate"],
        cwd=folder,
        env={**environment(python), "PYTHONPATH": os.fspath(folder)},
        stdout=subprocess.DEVNULL,
        stderr=sys.stderr.fileno(),
        check=True,
    )
