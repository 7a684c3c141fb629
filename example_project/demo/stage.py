"""Every process of the demo: schedulers, workers, the remote parts.

All are children in process groups of their own, so that a Ctrl-C at the terminal
reaches only the demo, which then ends them; they also end when the demo is killed.
`Stage.close` may be called at any time and more than once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self
from urllib.error import URLError
from urllib.request import urlopen

from celery_pecker.kernel.migrations import migrate
from celery_pecker.testing import eventually, free_port
from example_project.demo.interrupts import undisturbed
from example_project.demo.servers import Servers
from example_project.pace import STALE
from example_project.parts.control import Control
from example_project.processes import ProcessContainer
from example_project.store import Store

ROOT = Path(__file__).resolve().parents[2]
SCHEDULERS = ("A", "B")
WORKERS = 2
THREADS = 16
STARTS_WITHIN = 180.0
"""Seconds; a start takes five on a quiet machine."""


class NotReady(Exception):
    """A process of the demo did not get ready; its last words are in the message."""

    def __init__(self, process: ProcessContainer, why: str) -> None:
        super().__init__(f"{process.name} {why}:\n{process.life_log()[-2000:]}")


class Scheduler:
    """One `celery beat -S pecker`: it can be killed, brought back, frozen."""

    def __init__(self, name: str, process: ProcessContainer) -> None:
        self.name = name
        self.state = "starting"
        self.pids: set[int] = set()
        self._process = process

    @property
    def pid(self) -> int:
        """Process id of the life that runs now, or ran last."""
        return self._process.pid

    def start(self) -> None:
        """A new life begins."""
        with undisturbed():
            self._process.start()
        self.pids.add(self._process.pid)
        self.state = "starting"

    def await_ready(self) -> None:
        """It takes part."""
        await_word(self._process, "pecker: ready")
        self.state = "running"

    def kill(self) -> None:
        """It is dead, by SIGKILL."""
        self._process.kill("SIGKILL")
        self.state = "killed"

    def freeze(self) -> None:
        """It stands still, by SIGSTOP."""
        self._process.kill("SIGSTOP")
        self.state = "frozen"

    def thaw(self) -> None:
        """It goes on where it stood."""
        self._process.kill("SIGCONT")
        self.state = "running"


class Stage:
    """Builds the scene on given servers and takes it down.

    `enters` returns the address by which a process with this name enters the database;
    by default all enter as the demo itself does, which owns the tables.
    """

    def __init__(
        self,
        servers: Servers,
        *,
        calls: int,
        seed: int,
        enters: Callable[[str], str] | None = None,
    ) -> None:
        self._enters = enters or (lambda _: servers.postgres.dsn)
        self._processes: list[ProcessContainer] = []
        # Whoever is killed leaves his sign of life behind.
        self._folder = TemporaryDirectory(prefix="meetings-")
        self._calls = calls
        self.dsn = servers.postgres.dsn
        self._environment = {
            "MEETINGS_REDIS_URL": servers.redis.url,
            "MEETINGS_KEY_PREFIX": servers.redis.key_prefix,
            "MEETINGS_HEARTBEATS": self._folder.name,
        }
        self.schedulers = [
            Scheduler(name, self._celery(f"scheduler-{name}", self._beat()))
            for name in SCHEDULERS
        ]
        self._workers = [
            self._celery(f"worker-{number + 1}", self._worker(number + 1))
            for number in range(WORKERS)
        ]
        self._local = self._celery(
            "worker-local", self._worker(WORKERS + 1, queues="none"), MEETINGS_LOCAL="1"
        )
        self.flower_port = free_port()
        self._flower = self._celery(
            # So that its buttons may be tried without a login: it listens here only.
            "flower",
            self._seen(),
            FLOWER_UNAUTHENTICATED_API="true",
        )
        self._parts = self._process(
            "parts",
            *("-m", "example_project.parts"),
            *("--calls", str(calls), "--seed", str(seed)),
        )

    def __enter__(self) -> Self:
        """Nothing runs yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Everything is gone."""
        self.close()

    def start_parts(self, store: Store) -> Control:
        """Tables are made, and the remote parts listen and are in them."""
        with undisturbed():
            self._parts.start()
        migrate(self.dsn, schema="public")
        store.rows("schema")
        await_word(self._parts, "}\n")
        ports = json.loads(self._parts.life_log().splitlines()[0])
        store.rows(
            "add_parts",
            host=ports["host"],
            agent_ports=ports["agents"],
            equipment_port=ports["equipment"],
            backend_port=ports["backend"],
        )
        return Control(ports["host"], ports["control"])

    def start_celery(self) -> None:
        """Schedulers and workers run, and all are ready."""
        for worker in (*self._workers, self._flower):
            with undisturbed():
                worker.start()
        for scheduler in self.schedulers:
            scheduler.start()
        for worker in self._workers:
            await_word(worker, " ready.")
        for scheduler in self.schedulers:
            scheduler.await_ready()
        self._await_flower()

    def start_local(self) -> None:
        """A worker runs that is a scheduler too, and runs local entries itself."""
        with undisturbed():
            self._local.start()
        await_word(self._local, " ready.")
        # Its schedulers, one for each way of running, say so themselves.
        await_word(self._local, "pecker: ready")

    @property
    def flower_url(self) -> str:
        """Where the schedules can be looked at while the demo runs."""
        return f"http://127.0.0.1:{self.flower_port}/schedules"

    def _await_flower(self) -> None:
        """Its page answers."""

        def answers() -> bool:
            if self._flower.exit_code is not None:
                raise NotReady(self._flower, "ended")
            with urlopen(self.flower_url, timeout=5) as page:  # noqa: S310  # ours
                return bool(page.status == HTTPStatus.OK)

        try:
            eventually(answers, STARTS_WITHIN, ignoring=(URLError, ConnectionError))
        except AssertionError as error:
            why = f"did not answer at {self.flower_url} within {STARTS_WITHIN:g} s"
            raise NotReady(self._flower, why) from error

    def begin_calls(self, store: Store, control: Control, drops_after: float) -> None:
        """Every room is in a call; its backend counts the silence from now on."""
        control.hold(self._calls, drops_after)
        store.rows("add_calls", stale=STALE)

    def name_of(self, pid: int | None) -> str:
        """Return the name of the scheduler that has, or had, this process id."""
        for scheduler in self.schedulers:
            if pid in scheduler.pids:
                return scheduler.name
        return ""

    def ended(self) -> tuple[str, ...]:
        """Return the processes that have ended, which none should by itself."""
        return tuple(
            process.name for process in self._processes if process.exit_code is not None
        )

    def logs(self) -> dict[str, str]:
        """Return what each process has said, by its name."""
        return {
            process.name: process.logs().decode(errors="replace")
            for process in self._processes
            if process.lives
        }

    def close(self) -> None:
        """No process is left."""
        for process in self._processes:
            process.remove()
        self._folder.cleanup()

    def _beat(self) -> tuple[str, ...]:
        return ("beat", "-S", "pecker", "--pidfile=", "-l", "INFO")

    def _seen(self) -> tuple[str, ...]:
        return (
            *("pecker", "flower", "--address=127.0.0.1"),
            *(f"--port={self.flower_port}", "--logging=warning"),
        )

    def _worker(self, number: int, *, queues: str = "sweep,checks") -> tuple[str, ...]:
        return (
            *("worker", "-n", f"worker-{number}@%h", "-Q", queues),
            *("-P", "threads", "-c", str(THREADS), "-l", "INFO"),
            *("--without-gossip", "--without-mingle"),
        )

    def _celery(
        self, name: str, command: tuple[str, ...], **env: str
    ) -> ProcessContainer:
        return self._process(
            name, "-m", "celery", "-A", "example_project.app", *command, **env
        )

    def _process(self, name: str, *command: str, **env: str) -> ProcessContainer:
        process = ProcessContainer(
            [sys.executable, *command],
            name=name,
            cwd=ROOT,
            env={**self._environment, "MEETINGS_DSN": self._enters(name), **env},
        )
        self._processes.append(process)
        return process


def started(
    kept: ExitStack, name: str, command: Sequence[str], env: Mapping[str, str]
) -> ProcessContainer:
    """Start a Python with these words; return it. It ends with the stack."""
    process = ProcessContainer([sys.executable, *command], name=name, cwd=ROOT, env=env)
    with undisturbed():
        process.start()
        kept.callback(process.remove)
    return process


def await_word(process: ProcessContainer, word: str) -> None:
    """The process has said the word in this life."""

    def said() -> bool:
        if process.exit_code is not None:
            raise NotReady(process, f"ended with code {process.exit_code}")
        return word in process.life_log()

    try:
        eventually(said, STARTS_WITHIN)
    except AssertionError as error:
        why = f"did not say {word!r} within {STARTS_WITHIN:g} s"
        raise NotReady(process, why) from error
