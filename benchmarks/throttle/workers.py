"""A place for workers whose tasks touch a database: queues, files, processes.

What belongs to a throttled is gone when it ends.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import psutil
import redis

from benchmarks.peers.environment import ENVIRONMENT
from benchmarks.record import RECORD, RUN, Runs
from benchmarks.servers import Servers
from celery_pecker.testing import EmbeddedRedis, eventually
from example_project.processes import ProcessContainer

ROOT = Path(__file__).resolve().parents[2]
READY_WITHIN = 60.0
AT_ONCE = 1_000
"""Messages in one round trip."""


class Spent(NamedTuple):
    """Seconds of processor time of workers."""

    main: float
    """The main threads of their main processes."""
    threads: float
    """The other threads of those."""
    children: float

    @property
    def all(self) -> float:
        """Return all of it."""
        return self.main + self.threads + self.children

    def minus(self, before: Spent) -> Spent:
        """Return what was taken since then."""
        return Spent(*(now - was for now, was in zip(self, before, strict=True)))


@dataclass(slots=True)
class Crew:
    """Workers on one queue."""

    queue: str
    folder: Path
    processes: list[ProcessContainer]

    def runs(self) -> Runs:
        """Return what their tasks did so far, in the order in which they ended."""
        parts = [
            np.frombuffer(data[: len(data) // RECORD.size * RECORD.size], dtype=RUN)
            for data in (path.read_bytes() for path in self.folder.glob("runs-*"))
        ]
        found = np.concatenate(parts) if parts else np.zeros(0, dtype=RUN)
        return found[np.argsort(found["ended"])]

    def done(self) -> int:
        """Return how many runs have ended."""
        sizes = (path.stat().st_size for path in self.folder.glob("runs-*"))
        return sum(sizes) // RECORD.size

    def forget(self) -> None:
        """What was done until now does not count."""
        for path in self.folder.glob("runs-*"):
            os.truncate(path, 0)

    def cpu(self) -> Spent:
        """Return the processor time that their processes have taken until now."""
        main = threads = children = 0.0
        for process in self.processes:
            for thread, seconds in _threads(process.pid):
                if thread == process.pid:
                    main += seconds
                else:
                    threads += seconds
            for child in psutil.Process(process.pid).children(recursive=True):
                children += sum(seconds for _, seconds in _threads(child.pid))
        return Spent(main, threads, children)


def _threads(pid: int) -> Iterator[tuple[int, float]]:
    """Yield each thread of a process, and its seconds of processor time.

    Linux counts nanoseconds here. All other figures of it come in steps of 10 ms.
    """
    if not Path("/proc/self/schedstat").exists():
        for one in psutil.Process(pid).threads():
            yield one.id, one.user_time + one.system_time
        return
    for folder in Path(f"/proc/{pid}/task").iterdir():
        spent, *_ = (folder / "schedstat").read_text().split()
        yield int(folder.name), int(spent) / 1e9


class ThrottledWorkers:
    """Queues on the servers' Redis, traffic on a Redis of its own."""

    def __init__(
        self, servers: Servers, tell: Callable[[], None] = lambda: None
    ) -> None:
        self.servers = servers
        self._tell = tell
        self.name = f"yard_{secrets.token_hex(4)}"
        self.folder = Path(tempfile.mkdtemp(prefix="throttle-bench-"))
        self.traffic = EmbeddedRedis(fast=True)
        self.broker = redis.Redis.from_url(servers.redis)
        self._crews: list[Crew] = []
        self._numbers = count()

    def __enter__(self) -> Self:
        """The Redis of the traffic answers."""
        self.traffic.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Processes have ended; queues and files are gone."""
        for crew in self._crews:
            self._end(crew)
        self.broker.delete("unacked", "unacked_index")
        self.broker.close()
        self.traffic.__exit__(kind, error, trace)
        shutil.rmtree(self.folder, ignore_errors=True)

    def crew(
        self,
        workers: int = 1,
        *,
        pool: str = "prefork",
        processes: int = 1,
        seed: int | None = None,
        **env: object,
    ) -> Crew:
        """Return workers on a queue of their own, ready; with `LIMIT`, with a gate.

        Those with the same `seed` have the same order in what Python hashes.
        """
        queue = f"{self.name}_{next(self._numbers)}"
        folder = self.folder / queue
        folder.mkdir()
        given = {
            "BROKER": self.servers.redis,
            "QUEUE": queue,
            "DSN": self.servers.dsn,
            "TRAFFIC": self.traffic.url,
            "FOLDER": str(folder),
            **{name: str(value) for name, value in env.items() if value is not None},
        }
        made = Crew(
            queue,
            folder,
            [
                ProcessContainer(
                    [
                        *(
                            sys.executable,
                            "-m",
                            "celery",
                            "-A",
                            "benchmarks.throttle.app",
                        ),
                        *("worker", "-P", pool, "-c", str(processes)),
                        *("-n", f"w{number}-{{id}}@bench", "-Q", queue, "-l", "INFO"),
                        *("--without-gossip", "--without-mingle"),
                    ],
                    name=f"worker {number} of {queue}",
                    cwd=ROOT,
                    env={
                        **{ENVIRONMENT + name: one for name, one in given.items()},
                        **({} if seed is None else {"PYTHONHASHSEED": str(seed)}),
                    },
                )
                for number in range(workers)
            ],
        )
        self._crews.append(made)
        for process in made.processes:
            process.start()
        for process in made.processes:
            eventually(
                lambda process=process: b" ready." in process.logs(),  # type: ignore[misc]
                READY_WITHIN,
                f"{process.name} is ready",
            )
        return made

    def dismiss(self, crew: Crew) -> None:
        """Kill the workers of a crew: it is not needed any more."""
        self._crews.remove(crew)
        self._end(crew)

    def _end(self, crew: Crew) -> None:
        for process in crew.processes:
            process.kill()
            process.remove()
        self.broker.delete(crew.queue)

    def feed(
        self, crew: Crew, task: str, count: int, *args: object, first: int = 0
    ) -> None:
        """So many messages lie on the crew's queue; the first argument numbers them."""
        for begin in range(first, first + count, AT_ONCE):
            numbers = range(begin, min(begin + AT_ONCE, first + count))
            with self.broker.pipeline(transaction=False) as pipe:
                pipe.lpush(
                    crew.queue,
                    *(_message(crew.queue, task, [n, *args]) for n in numbers),
                )
                pipe.execute()

    def until(self, what: Callable[[], object], within: float, said: str) -> None:
        """The condition came true; time is shown meanwhile."""
        end = time.monotonic() + within
        while not what():
            if time.monotonic() > end:
                message = f"not within {within:g} s: {said}"
                raise TimeoutError(message)
            time.sleep(0.005)
            self._tell()

    def rest(self, seconds: float) -> None:
        """Time went by, and was shown."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(0.1, left))
            self._tell()


def _message(queue: str, task: str, args: list[Any]) -> str:
    """Return a task message as Celery puts it on Redis."""
    made = str(uuid.uuid4())
    body = json.dumps([args, {}, {"callbacks": None, "errbacks": None}])
    return json.dumps(
        {
            "body": base64.b64encode(body.encode()).decode(),
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": {
                "lang": "py",
                "task": task,
                "id": made,
                "root_id": made,
                "parent_id": None,
                "group": None,
                "retries": 0,
                "eta": None,
                "expires": None,
                "timelimit": [None, None],
                "argsrepr": repr(tuple(args)),
                "kwargsrepr": "{}",
                "origin": "bench",
                "ignore_result": True,
            },
            "properties": {
                "correlation_id": made,
                "reply_to": "",
                "delivery_mode": 2,
                "delivery_info": {"exchange": "", "routing_key": queue},
                "priority": 0,
                "body_encoding": "base64",
                "delivery_tag": str(uuid.uuid4()),
            },
        }
    )
