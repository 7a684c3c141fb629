"""One application with our scheduler, worker and outbox, from start to end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, LiteralString

import psycopg

from celery_pecker.testing import eventually
from tests.field.applications import PECKER, RAN, Application

Process = subprocess.Popen[bytes]
LIMIT = 900.0
"""Seconds for one command: the migrations of an application are many."""
SOON = 300.0
"""Seconds for what a process that runs has to do."""
OUTBOX = """
import importlib
import django

django.setup()
from django.db import connection, transaction

from celery_pecker.outbox import Outbox

app = importlib.import_module({app!r}).app
outbox = Outbox(app)
task = app.signature({task!r})
try:
    with transaction.atomic():
        undone = outbox.send(task, connection=connection)
        raise InterruptedError
except InterruptedError:
    pass
with transaction.atomic():
    result = outbox.send(task, connection=connection)
print("recorded", undone.id, result.id)
"""


class Scene:
    """Runs the commands of the documentation on one application."""

    def __init__(  # an application, a place and servers
        self,
        application: Application,
        folder: Path,
        python: Path,
        dsn: str,
        redis: str,
        *,
        say: Callable[[str], None],
    ) -> None:
        self._application = application
        self._folder = folder
        self._python = python
        self._dsn, self._redis = dsn, redis
        self._say = say
        self._env = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "field_settings",
            "PYTHONPATH": str(folder),
            "PYTHONWARNINGS": "ignore",
        }

    def play(self, address: Mapping[str, Any]) -> None:
        """Adopt it; raise AssertionError for what is not as documented."""
        self._settings(address)
        self._say(f"{self._application.requirement}: its own migrations")
        self.run("-m", "django", "migrate")
        self._say("pecker migrate")
        self.pecker("migrate")
        shown = self.health(code=1)
        assert shown["pace"]["schedulers"] == 0, shown
        self._say("health fails while no scheduler has run")
        with self.started("worker", "-l", "INFO") as worker:
            with self.started("beat", "-S", "pecker", "-l", "INFO") as beat:
                self._await(beat, self._sent, "slots that are sent")
                self._say("a scheduler sends its entry")
                self._await(worker, self._succeeded, "runs that succeed")
                self._say(
                    f"a worker ran it, and reported {self._succeeded()} successes"
                )
                self._outbox(worker)
                eventually(partial(self._is_healthy, 0), SOON, "health")
                shown = self.health("--runs", "--outbox")
                assert shown["pace"]["schedulers"] == 1, shown
                self._say("health: pace, runs and outbox are well")
                beat.send_signal(signal.SIGKILL)
                beat.wait()
            gone = partial(self._is_healthy, 1)
            eventually(gone, SOON, "health fails without a scheduler")
            self._say("the scheduler was killed, and health fails")

    def _settings(self, address: Mapping[str, Any]) -> None:
        names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password"}
        names |= {"HOST": "host", "PORT": "port"}
        database = {key: address.get(name) or "" for key, name in names.items()}
        text = (self._application.settings + PECKER + RAN).format(
            database=database,
            dsn=self._dsn,
            folder=str(self._folder),
            redis=self._redis,
            task=self._application.task,
        )
        (self._folder / "field_settings.py").write_text(text)

    def run(self, *words: str, code: int = 0) -> str:
        """Run the environment's Python to its end; return what it printed."""
        done = subprocess.run(
            [self._python, *words],
            cwd=self._folder,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        said = f"{' '.join(words)} ended with {done.returncode}:\n"
        assert done.returncode == code, f"{said}{done.stdout}{done.stderr}"
        return done.stdout

    def pecker(self, *words: str, code: int = 0) -> str:
        """Run a command of pecker."""
        celery = ("-m", "celery", "-A", self._application.app)
        return self.run(*celery, "pecker", *words, code=code)

    def health(self, *words: str, code: int = 0) -> Any:
        """Return what health says of the pace, and of more."""
        text = self.pecker("health", "--pace", *words, "--json", code=code)
        return json.loads(text[text.index("{\n") :])

    def _is_healthy(self, code: int) -> bool:
        try:
            self.health("--runs", "--outbox", code=code)
        except AssertionError:
            return False
        return True

    @contextmanager
    def started(self, *words: str) -> Iterator[Process]:
        """Run a process of Celery's for as long as the block."""
        log = self._folder / f"{words[0]}.log"
        with log.open("w") as file:
            process = subprocess.Popen(
                [self._python, "-m", "celery", "-A", self._application.app, *words],
                cwd=self._folder,
                env=self._env,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(30.0)
            except subprocess.TimeoutExpired:
                process.kill()

    def _await(
        self, process: Process, condition: Callable[[], object], what: str
    ) -> None:
        """Wait for a condition, as long as the process lives that brings it about."""

        def ends() -> object:
            return condition() or process.poll() is not None

        eventually(ends, SOON, what)
        assert process.poll() is None, f"{what}: the process ended"

    def _count(self, query: LiteralString) -> int:
        with psycopg.connect(self._dsn) as connection:
            row = connection.execute(query).fetchone()
        return 0 if row is None else int(row[0])

    def _sent(self) -> int:
        return self._count("select epoch from pecker_tasks where name = 'field'")

    def _succeeded(self) -> int:
        return self._count("select succeeded from pecker_outcomes where name = 'field'")

    @property
    def _ran(self) -> set[str]:
        path = self._folder / "ran.txt"
        return {*path.read_text().split()} if path.exists() else set()

    def _outbox(self, worker: Process) -> None:
        """Record a task in two transactions, of which one is rolled back."""
        script = self._folder / "send.py"
        app, task = self._application.app, self._application.task
        script.write_text(OUTBOX.format(app=app, task=task))
        undone, sent = self.run(str(script)).rpartition("recorded ")[2].split()
        self._await(worker, lambda: sent in self._ran, "the task of the outbox")
        assert undone not in self._ran, "a task of a rollback was sent"
        self._say(
            "a task that was recorded with a commit ran; one of a rollback did not"
        )
