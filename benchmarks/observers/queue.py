"""Workers of a task that never ends, on a broker that becomes impatient soon."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from celery import Celery
from kombu import Connection

from benchmarks.observers.forever import PERIOD, TASK
from benchmarks.peers.environment import ENVIRONMENT
from benchmarks.schedules.trial import ROOT
from celery_pecker.testing import eventually, free_port
from example_project.processes import ProcessContainer

ACK_TIMEOUT = 10.0
"""Seconds after which a broker hands out anew what is not acknowledged."""
TICK = 2.0
"""Seconds between two looks of RabbitMQ at what is not acknowledged; 60 by default."""
TIMEOUT = 60.0
SERVER = (
    "/usr/lib/rabbitmq/bin/rabbitmq-server",
    "/opt/rabbitmq/sbin/rabbitmq-server",
)


class Run(NamedTuple):
    """One run of the task, as its lines say."""

    pid: int
    began: float
    seen: float
    """When its last line was written."""


class Fleet:
    """Some workers and one message."""

    def __init__(self, broker: str, workers: int) -> None:
        self.name = f"bench_{secrets.token_hex(4)}"
        self._folder = Path(tempfile.mkdtemp(prefix="pecker-bench-"))
        self._lines = self._folder / "lines"
        self._lines.touch()
        self._broker = broker
        values = {
            "BROKER": broker,
            "QUEUE": self.name,
            "LINES": str(self._lines),
            "VISIBLE": str(ACK_TIMEOUT) if broker.startswith("redis") else "",
        }
        self.workers = [
            ProcessContainer(
                [
                    *(sys.executable, "-m", "celery", "-A"),
                    *("benchmarks.observers.forever", "worker", "-c", "1"),
                    *("-n", f"w{number}@{self.name}", "-l", "INFO"),
                    *("--without-gossip", "--without-mingle"),
                ],
                name=f"worker {number} of {self.name}",
                cwd=ROOT,
                env={ENVIRONMENT + key: value for key, value in values.items()},
            )
            for number in range(workers)
        ]

    @contextmanager
    def running(self) -> Iterator[float]:
        """Start the workers and send the message; give the instant of its first run."""
        app = Celery("bench-forever", broker=self._broker, set_as_current=False)
        try:
            for worker in self.workers:
                worker.start()
            for worker in self.workers:
                eventually(lambda one=worker: "ready." in one.life_log(), TIMEOUT)  # type: ignore[misc]
            app.send_task(TASK, queue=self.name)
            [first] = eventually(self.runs, TIMEOUT, "the task runs")
            yield first.began
        finally:
            for worker in self.workers:
                worker.remove()
            app.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    def runs(self) -> list[Run]:
        """Return the runs of the message, in order."""
        found: dict[tuple[int, float], float] = {}
        for line in self._lines.read_text().splitlines():
            _, began, pid, at = line.split()
            found[int(pid), float(began)] = float(at)
        made = [Run(pid, began, seen) for (pid, began), seen in found.items()]
        return sorted(made, key=lambda one: one.began)

    def most_at_once(self) -> int:
        """Return how many runs there were at the same time, at most."""
        runs = self.runs()
        return max(
            sum(one.began <= at.began <= one.seen + 2 * PERIOD for one in runs)
            for at in runs
        )

    def watch(self, seconds: float, tell: Callable[[], None]) -> None:
        """Wait."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            time.sleep(0.5)
            tell()


@contextmanager
def rabbitmq() -> Iterator[str]:
    """Give a RabbitMQ of the trial's own, whose consumer_timeout is short."""
    program = next((one for one in map(Path, SERVER) if one.exists()), None)
    if program is None:
        message = f"no program of RabbitMQ; looked for {', '.join(SERVER)}"
        raise LookupError(message)
    folder = Path(tempfile.mkdtemp(prefix="pecker-rabbitmq-"))
    port = free_port()
    limits = f"{{consumer_timeout,{ACK_TIMEOUT * 1e3:.0f}}}"
    limits += f",{{channel_tick_interval,{TICK * 1e3:.0f}}}"
    (folder / "advanced.config").write_text(f"[{{rabbit,[{limits}]}}].\n")
    (folder / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{port}\n")
    (folder / "plugins").write_text("[].\n")
    server = ProcessContainer(
        [str(program.resolve())],
        name="rabbitmq",
        env={
            "HOME": str(folder),
            "RABBITMQ_NODENAME": f"bench{port}@localhost",
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_DIST_PORT": str(free_port()),
        },
    )
    url = f"amqp://guest:guest@127.0.0.1:{port}//"

    def answers() -> bool:
        with Connection(url, connect_timeout=2) as connection:
            connection.connect()
        return True

    try:
        server.start()
        eventually(answers, TIMEOUT, "RabbitMQ answers", ignoring=(OSError,))
        yield url
    finally:
        server.remove()
        shutil.rmtree(folder, ignore_errors=True)


def alive(pid: int) -> bool:
    """Return whether a process is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
