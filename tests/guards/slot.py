"""A copy of the tree with servers of its own, in which guards are taken out in turn."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import redis

from celery_pecker.testing import EmbeddedPostgres, EmbeddedRedis
from tests.guards.guard import ROOT, Guard

COPIED = (
    *("celery_pecker", "celery_sharding", "throttle", "example_project"),
    *("tests", "docs", "README.md", "pyproject.toml"),
)
ENDS_WITHIN = 600.0
"""Seconds for the tests of one guard; what takes longer never ends."""
STANDS = ("[embedded", "[local-")
"""Tests that name a kind of server, which are other ones where servers are given."""


class Slot:
    """Runs the tests of one guard at a time, on servers that stay up."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        # Python compares a compiled file with its source by time (in seconds) and size.
        self._times = itertools.count(1_000_000_000)

    def __enter__(self) -> Self:
        """Copy the tree and start the servers."""
        with ExitStack() as stack:
            folder = tempfile.TemporaryDirectory(prefix="pecker-guards-")
            self._copy = Path(stack.enter_context(folder))
            unwanted = shutil.ignore_patterns("__pycache__", "_build", "_static")
            for part in COPIED:
                if (ROOT / part).is_dir():
                    shutil.copytree(ROOT / part, self._copy / part, ignore=unwanted)
                else:
                    shutil.copy(ROOT / part, self._copy / part)
            dsn = stack.enter_context(EmbeddedPostgres(fast=True)).dsn
            self._redis = stack.enter_context(EmbeddedRedis(fast=True)).url
            # Flower, workers and schedulers that a test starts are of the copy, too.
            self._env = {**os.environ, "PYTHONPATH": str(self._copy)}
            self._given = {
                "PECKER_TEST_DSN": dsn,
                "PECKER_TEST_REDIS_URL": self._redis,
            }
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the servers and remove the copy."""
        self._stack.close()

    def red_without(self, guard: Guard) -> tuple[bool, str]:
        """Return whether a test fails once the guard is gone, and which or why not."""
        if len(found := guard.files()) != 1:
            return False, f"its text is in {found or 'no file'}: name it anew"
        file = self._copy / found[0]
        before = file.read_text(encoding="utf-8")
        self._write(file, guard.taken_out(before))
        try:
            if not any(stand in guard.tests for stand in STANDS):
                red, reason = self._run(guard, self._given)
                if red:
                    return True, reason
            # Without given servers tests run on each kind that there is
            return self._run(guard, {})
        finally:
            self._write(file, before)

    def _write(self, file: Path, text: str) -> None:
        file.write_text(text, encoding="utf-8")
        time = next(self._times)
        os.utime(file, (time, time))

    def _run(self, guard: Guard, given: dict[str, str]) -> tuple[bool, str]:
        with redis.Redis.from_url(self._redis) as client:
            client.flushall()  # what a run that was killed has left
        command = ["-m", "pytest", "-x", "-q", "--tb=no", "-n", "0", guard.tests]
        process = subprocess.Popen(  # our own tests
            [sys.executable, *command],
            cwd=self._copy,
            env={**self._env, **given},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            return True, f"{guard.tests}, which never ends"
        finally:
            # Workers that a hanging test has left would read the next guard's queues.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        failed = [line for line in out.splitlines() if line.startswith("FAILED")]
        if process.returncode == 1 and failed:
            return True, failed[0].split(" - ")[0].removeprefix("FAILED ")
        if "Timeout" in out + err:
            return True, f"{guard.tests}, which never ends"
        return False, (out + err)[-300:]
