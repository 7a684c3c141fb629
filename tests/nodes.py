"""pytest-celery's nodes for schedulers, workers and servers that are processes.

The classes of pytest-celery are used as they are; what is added is a node for
``celery beat``, a readiness that belongs to the process's present life (pytest-celery
reads the whole log, where an earlier life's "ready" still stands), and freezing.
"""

from __future__ import annotations

import sys
from signal import Signals
from typing import TYPE_CHECKING, Any

from pytest_celery import (
    CeleryTestContainer,
    CeleryTestNode,
    CeleryTestSetup,
    CeleryTestWorker,
    CeleryWorkerContainer,
)

from celery_pecker.kernel.clock import SYSTEM, new_id, pause
from celery_pecker.testing.servers import HOST
from example_project.processes import ProcessContainer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from celery import Celery
    from pytest_celery import CeleryTestCluster

    from celery_pecker.testing.servers import EmbeddedServer

LEAN = ("-m", "tests.lean")
READY = "pecker: ready"
WOKE = "pecker: woke"
_READY_WITHIN = 30.0
_GLANCE = 0.02


class NotReadyError(AssertionError):
    """A process ended, or was silent, instead of getting ready."""


class _Life:
    """Waits for words of the present life of a process."""

    ready_prompt: str
    process: ProcessContainer

    def says(self, *words: str) -> bool:
        """Say whether the words stand in the log of this life, in this order."""
        log = self.process.life_log()
        at = 0
        for word in words:
            at = log.find(word, at)
            if at < 0:
                return False
            at += len(word)
        return True

    def await_words(self, *words: str, timeout: float = _READY_WITHIN) -> None:
        """Wait for the words in this life's log; raise NotReadyError without them."""
        deadline = SYSTEM.monotonic() + timeout
        while not self.says(*words):
            ended = self.process.exit_code
            if ended is not None or SYSTEM.monotonic() > deadline:
                state = "runs" if ended is None else f"ended with {ended}"
                msg = (
                    f"{self.process.name} {state} and did not say {words!r}; "
                    f"its log ends:\n{self.process.life_log()[-4000:]}"
                )
                raise NotReadyError(msg)
            pause(_GLANCE)


class ProcessNodeContainer(_Life, CeleryTestContainer):
    """A container of pytest-celery that is a local process."""

    ready_prompt = ""

    def __init__(self, process: ProcessContainer) -> None:
        super().__init__(process)
        self.process = process

    def _wait_ready(self, timeout: float = _READY_WITHIN) -> bool:
        self.await_words(self.ready_prompt, timeout=timeout)
        return True

    def teardown(self) -> None:
        """End the process and remove its log."""
        self.process.remove()


class BeatContainer(ProcessNodeContainer):
    """``celery beat -S pecker``."""

    ready_prompt = READY


class BeatNode(CeleryTestNode):
    """One replica of the scheduler."""

    @property
    def process(self) -> ProcessContainer:
        """The replica's process."""
        process: ProcessContainer = self.container.process
        return process

    def woken(self) -> bool:
        """Say whether this life is ready and has woken since: a survivor."""
        alive = self.process.exit_code is None
        return alive and bool(self.container.says(READY, WOKE))

    def await_woken(self, timeout: float = _READY_WITHIN) -> None:
        """Wait until the replica is ready and has woken once since."""
        self.container.await_words(READY, WOKE, timeout=timeout)

    def freeze(self) -> None:
        """Stop the whole process, without a sign to anybody."""
        self.process.kill("SIGSTOP")

    def thaw(self) -> None:
        """Let the process go on where it stood."""
        self.process.kill("SIGCONT")


class WorkerContainer(_Life, CeleryWorkerContainer):
    """``celery worker``; its names belong to the node, not to the class."""

    ready_prompt = "ready."

    def __init__(self, process: ProcessContainer, queue: str) -> None:
        super().__init__(process)
        self.process = process
        self._queue = queue

    def worker_name(self) -> str:
        """Name before the @ of the worker's node name."""
        return self.process.name

    def worker_queue(self) -> str:
        """Return the queue that this worker reads."""
        return self._queue

    def _wait_ready(self, timeout: float = _READY_WITHIN) -> bool:
        self.await_words(self.ready_prompt, timeout=timeout)
        return True

    def teardown(self) -> None:
        """End the process and remove its log."""
        self.process.remove()


class _Served:
    """An embedded server with the face of a docker-py container."""

    def __init__(self, server: EmbeddedServer) -> None:
        self.server = server
        self.id = new_id().hex
        self.name = server.name
        self.attrs: dict[str, Any] = {
            "NetworkSettings": {"Networks": {}, "Ports": {}},
            "HostConfig": {"PortBindings": {}},
            "Config": {"Env": []},
        }

    @property
    def status(self) -> str:
        return "running" if self.server.running else "exited"

    def reload(self) -> None:
        """Do nothing: nothing is cached."""

    def kill(self, signal: str | int | None = None) -> None:
        """SIGKILL, SIGSTOP, SIGCONT or SIGTERM, to the server and its children."""
        act = {
            "SIGKILL": self.server.kill,
            "SIGSTOP": self.server.freeze,
            "SIGCONT": self.server.thaw,
            "SIGTERM": self.server.stop,
        }
        act[Signals(signal).name if isinstance(signal, int) else signal or "SIGKILL"]()

    def restart(self, timeout: float = 0.0) -> None:
        """Restart the server on the same port, with its data."""
        self.server.stop()
        self.server.start()

    def logs(self) -> bytes:
        """Return what the server has written in all its lives."""
        return self.server.log.encode()


class ServerContainer(CeleryTestContainer):
    """An embedded server as a container of pytest-celery."""

    def __init__(self, server: EmbeddedServer, url: str) -> None:
        super().__init__(_Served(server))
        self.server = server
        self._url = url

    @property
    def celeryconfig(self) -> dict[str, Any]:
        """How Celery reaches the server."""
        return {
            "url": self._url,
            "host_url": self._url,
            "hostname": HOST,
            "port": self.server.port,
            "vhost": "0",
        }

    def _wait_ready(self, timeout: float = _READY_WITHIN) -> bool:
        return bool(self.server.start().running)


class PeckerTestSetup(CeleryTestSetup):
    """pytest-celery's setup plus the schedulers."""

    beats: CeleryTestCluster


def beat(  # noqa: PLR0913 - a command line has many parts
    app: str,
    *,
    name: str,
    cwd: Path,
    env: Mapping[str, str],
    options: Sequence[str] = (),
    scheduler: str = "pecker",
    launcher: Sequence[str] = LEAN,
) -> BeatNode:
    """Return a scheduler's node, not yet started."""
    command = [sys.executable, *launcher, "-A", app, "beat", "-S", scheduler]
    # beat's own state files: a pecker scheduler writes none, plain beat would
    command += ["--pidfile=", "-l", "INFO", *options]
    return BeatNode(
        BeatContainer(ProcessContainer(command, name=name, cwd=cwd, env=env))
    )


def worker(  # noqa: PLR0913 - a command line has many parts
    app: str,
    *,
    name: str,
    queue: str,
    cwd: Path,
    env: Mapping[str, str],
    options: Sequence[str] = (),
    celery_app: Celery | None = None,
) -> CeleryTestWorker:
    """Return a worker's node, not yet started."""
    command = [sys.executable, *LEAN, "-A", app, "worker"]
    command += ["-n", f"{name}@{{id}}", "-Q", queue, "-l", "INFO", *options]
    process = ProcessContainer(command, name=name, cwd=cwd, env=env)
    return CeleryTestWorker(WorkerContainer(process, queue), celery_app)


def start(nodes: Sequence[Any], wait: Callable[[Any], object] | None = None) -> None:
    """Start all processes at once; with `wait`, until each is ready."""
    for node in nodes:
        node.container.process.start()
    if wait is not None:
        for node in nodes:
            wait(node)
