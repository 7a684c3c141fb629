"""What the steps of a page are played on: a folder, a database, a broker."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from celery_pecker.testing import eventually
from tests.docs.pages import ROOT, Step, steps

TIMEOUT = 90.0
SERVERS = "python servers.py\n"
"""What a tutorial starts its servers with, by the extra `embedded`."""


class Wrong(AssertionError):
    """A page says what is not so."""


@dataclass(slots=True)
class Scene:
    """Plays the steps of one page, one after the other."""

    folder: Path
    dsn: str
    words: Mapping[str, str]
    """Addresses that stand in the pages, and those of the test's own servers."""
    python: Path = Path(sys.executable)
    """Runs the page; `SERVERS` are run by the Python of the test in any case."""
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    said: Callable[[], str] = str
    """Gives what the last command has said until now."""

    def play(self, step: Step) -> None:
        """The step is done, or Wrong is raised."""
        text = step.text
        for word, ours in self.words.items():
            text = text.replace(word, ours)
        match step.verb:
            case "file":
                path = self.folder / step.rest
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            case "run" if step.language == "sql":
                self._query(text)
            case "run":
                self._run(step.language, text)
            case "background":
                self._start(step.language, text, step.rest)
            case "stop":
                self.stop()
            case "output":
                self._compare(step.text)

    def play_page(self, page: str) -> None:
        """Play all steps of a page, named by its path; Wrong names page and line."""
        try:
            for step in steps((ROOT / page).read_text()):
                try:
                    self.play(step)
                except AssertionError as error:
                    message = f"{page}:{step.line}: {error}"
                    raise Wrong(message) from error
        finally:
            self.stop()

    def stop(self) -> None:
        """Nothing runs in the background any more; SIGTERM was enough for all."""
        running, self.running = self.running, []
        for process in running:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in running:
            try:
                process.wait(TIMEOUT)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def _query(self, text: str) -> None:
        told: list[str] = []
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(text.encode())
            while True:
                if cursor.description:
                    told += [" | ".join(map(str, row)) for row in cursor]
                if not cursor.nextset():
                    break
        self.said = lambda: "\n".join(told)

    def _run(self, language: str, text: str) -> None:
        command = self._command(language, text)
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=environment(self.python),
            capture_output=True,
            text=True,
            timeout=TIMEOUT * 2,
            check=False,
        )
        told = done.stdout + done.stderr
        if done.returncode:
            message = f"ended with {done.returncode}: {command[-1]}\n{told}"
            raise Wrong(message)
        self.said = lambda: told

    def _start(self, language: str, text: str, until: str) -> None:
        command = self._command(language, text)
        python = Path(sys.executable) if text == SERVERS else self.python
        log = self.folder / f"background-{len(list(self.folder.glob('background-*')))}"
        with log.open("wb") as sink:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment(python),
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.running.append(process)
        self.said = log.read_text

        def ready() -> bool:
            return until in log.read_text() or process.poll() is not None

        eventually(ready, TIMEOUT, f"{until!r} of {command[-1]!r}")
        if process.poll() is not None:
            message = f"ended with {process.returncode}: {command[-1]}\n{self.said()}"
            raise Wrong(message)

    def _compare(self, expected: str) -> None:
        patterns = [
            re.escape(" ".join(line.split())).replace("…", ".*")
            for line in expected.splitlines()
            if line.strip(" …")
        ]

        def shown() -> bool:
            lines = iter(" ".join(line.split()) for line in self.said().splitlines())
            return all(
                any(re.search(pattern, line) for line in lines) for pattern in patterns
            )

        try:
            eventually(shown, TIMEOUT / 2 if self.running else 0.0)
        except AssertionError as error:
            message = f"expected\n{expected}\nbut it said\n{self.said()}"
            raise Wrong(message) from error

    def _command(self, language: str, text: str) -> list[str]:
        commands = {"sh": ["bash", "-euc"], "python": [str(self.python), "-c"]}
        return [*commands[language], text]


def environment(python: Path) -> dict[str, str]:
    """Return the variables under which a page's `python` and `celery` are that one's.

    Without those of pytest, and without those that add modules to every Python.
    """
    strange = ("PYTEST", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    known = {k: v for k, v in os.environ.items() if not k.startswith(strange)}
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    return {**known, "PATH": path, "PYTHONUNBUFFERED": "1", "COLUMNS": "120"}
