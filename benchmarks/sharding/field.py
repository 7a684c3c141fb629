"""A schema and a queue of a trial's own, and workers on them.

What belongs to a field is gone when it ends.
"""

from __future__ import annotations

import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import psutil
import redis

from benchmarks.peers.environment import ENVIRONMENT
from benchmarks.schedules.filled import drop
from benchmarks.schedules.trial import ROOT
from benchmarks.servers import Servers
from celery_pecker.kernel.migrations import migrate
from celery_pecker.testing import eventually
from example_project.processes import ProcessContainer

OURS, CANVAS = "benchmarks.sharding.ours", "benchmarks.sharding.canvas"
READY_WITHIN = 60.0


class Field:
    """Workers on a queue and a schema of their own."""

    def __init__(
        self, servers: Servers, tell: Callable[[], None] = lambda: None
    ) -> None:
        self.servers = servers
        self.tell = tell
        self.name = f"field_{secrets.token_hex(4)}"
        self.folder = Path(tempfile.mkdtemp(prefix="sharding-bench-"))
        self.workers: list[ProcessContainer] = []

    def __enter__(self) -> Self:
        """The tables are there."""
        migrate(self.servers.dsn, schema=self.name)
        return self

    def __exit__(self, *_: object) -> None:
        """Processes have ended; tables, queue and files are gone."""
        for process in self.workers:
            process.kill()
            process.remove()
        with redis.Redis.from_url(self.servers.redis) as broker:
            broker.delete(self.name, "unacked", "unacked_index", "unacked_mutex")
            broker.delete(f"_kombu.binding.{self.name}")
        drop(self.servers.dsn, self.name)
        shutil.rmtree(self.folder, ignore_errors=True)

    def given(self, **more: object) -> dict[str, str]:
        """Return what an app of this field is given."""
        return {
            "BROKER": self.servers.redis,
            "QUEUE": self.name,
            "DSN": self.servers.dsn,
            "SCHEMA": self.name,
            "FOLDER": str(self.folder),
            **{name: str(value) for name, value in more.items() if value is not None},
        }

    def start(
        self,
        count: int,
        app: str = OURS,
        *,
        pool: str = "prefork",
        processes: int = 1,
        **given: object,
    ) -> list[ProcessContainer]:
        """Return so many more workers, ready."""
        env = {ENVIRONMENT + key: value for key, value in self.given(**given).items()}
        made = [
            ProcessContainer(
                [
                    *(sys.executable, "-m", "celery", "-A", app, "worker"),
                    *("-P", pool, "-c", str(processes), "-Q", self.name, "-l", "INFO"),
                    *("-n", f"w{len(self.workers) + number}-{{id}}@bench"),
                    *("--without-gossip", "--without-mingle"),
                ],
                name=f"worker {len(self.workers) + number} of {self.name}",
                cwd=ROOT,
                env=env,
            )
            for number in range(count)
        ]
        self.workers += made
        for process in made:
            process.start()
        for process in made:
            eventually(
                lambda process=process: _ready(process),  # type: ignore[misc]
                READY_WITHIN,
                f"{process.name} is ready",
            )
        return made

    def cpu(self) -> dict[str, float]:
        """Return seconds of processor time: of workers, and of each server of ours."""
        pids = {"workers": [one.pid for one in self.workers]}
        pids |= {name: [pid] for name, pid in self.servers.server_pids.items()}
        return {name: sum(map(_family_cpu, each)) for name, each in pids.items()}

    def until(self, what: Callable[[], object], within: float) -> bool:
        """The condition came true (True), or the time is over; time is shown."""
        end = time.monotonic() + within
        while not what():
            if time.monotonic() > end:
                return False
            time.sleep(0.005)
            self.tell()
        return True

    def rest(self, seconds: float) -> None:
        """Time went by, and was shown."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(0.1, left))
            self.tell()


def _ready(process: ProcessContainer) -> bool:
    if process.exit_code is not None:
        raise RuntimeError(process.life_log()[-2000:])
    return " ready." in process.life_log()


def _family_cpu(pid: int) -> float:
    """Seconds of a process and its children, those that have ended included."""
    try:
        first = psutil.Process(pid)
        family = [first, *first.children(recursive=True)]
        gone = first.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    spent = float(gone.children_user + gone.children_system)
    for one in family:
        try:
            times = one.cpu_times()
        except psutil.NoSuchProcess:
            continue
        spent += times.user + times.system
    return spent
