"""Workers, schedulers and callers of sharded jobs, on one database and one broker."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from kombu import Connection, Queue

from celery_pecker.testing import eventually
from example_project.processes import ProcessContainer
from tests.chaos.sharding.tables import TABLES, ask, next_queue
from tests.constants import constants

APP = "tests.chaos.sharding.app"
ROOT = Path(__file__).parents[3]
LEASE = 2.0
READY_WITHIN = 60.0
MANY = {"worker": 3, "scheduler": 2, "caller": 2}
"""Of each role: one more, at least, than may be dead at a time."""
READY = {"worker": " ready.", "scheduler": " ready.", "caller": "calling"}


@dataclass(slots=True)
class Actor:
    """A process and its role."""

    role: str
    process: ProcessContainer
    dead: list[int] = field(default_factory=list)
    """Process groups of its earlier lives."""

    @property
    def ready(self) -> bool:
        """Whether this life of it has begun its work, and goes on."""
        alive = self.process.exit_code is None
        return alive and READY[self.role] in self.process.life_log()

    def again(self) -> None:
        """What was left of it is gone, and a new life begins."""
        self.dead.append(self.process.pid)
        self.process.kill()
        self.process.start()


class Stand:
    """All processes of a chaos of sharded jobs; gone at the end."""

    def __init__(
        self, *, dsn: str, broker_url: str, backend_url: str, queue: str
    ) -> None:
        self.dsn = dsn
        self.folder = Path(tempfile.mkdtemp(prefix="sharding-chaos-"))
        self._queue = queue
        self._nobodys = f"{queue}-nobody"
        self._conf: dict[str, Any] = {
            "broker_url": broker_url,
            "result_backend": backend_url,
            "broker_connection_retry_on_startup": True,
            "task_default_queue": queue,
            "worker_prefetch_multiplier": 1,
            "pecker_dsn": dsn,
            "sharding_lease": LEASE,
        }
        ask(dsn, TABLES)
        self.actors = [
            Actor(role, self._process(role, number))
            for role, many in MANY.items()
            for number in range(many)
        ]

    def __enter__(self) -> Self:
        """All are ready."""
        for actor in self.actors:
            actor.process.start()
        for actor in self.actors:
            self.await_ready(actor)
        return self

    def __exit__(self, *_: object) -> None:
        for actor in self.actors:
            actor.process.remove()
        with Connection(self._conf["broker_url"]) as connection:
            for name in (self._queue, next_queue(self._queue), self._nobodys):
                Queue(name)(connection.channel()).delete()
        shutil.rmtree(self.folder, ignore_errors=True)

    def await_ready(self, actor: Actor) -> None:
        """The actor does its work, or an error says what it said instead."""

        def ready() -> bool:
            if actor.process.exit_code not in {None, -9}:
                raise RuntimeError(actor.process.life_log()[-3000:])
            return actor.ready

        eventually(ready, READY_WITHIN, f"{actor.process.name} is ready")

    def of(self, role: str) -> list[Actor]:
        """Return the actors of a role."""
        return [actor for actor in self.actors if actor.role == role]

    def collect(self) -> None:
        """What followed jobs stands in the table, each message as often as it came."""
        with Connection(self._conf["broker_url"]) as connection:
            channel: Any = connection.channel()
            queue = Queue(next_queue(self._queue))(channel)
            queue.queue_declare()
            while (message := queue.get(no_ack=True)) is not None:
                [value], *_ = message.payload
                ask(
                    self.dsn,
                    "insert into chaos_next (token, task_id) values (%s, %s)",
                    *(value["token"], value["task_id"]),
                )

    def _process(self, role: str, number: int) -> ProcessContainer:
        conf = {
            **self._conf,
            "pecker_worker": ["scheduler"] if role == "scheduler" else [],
        }
        name = f"{role}{number}"
        celery = ["-m", "tests.lean", "-A", APP, "worker", "-l", "INFO"]
        quiet = ["--without-gossip", "--without-mingle", "-n", f"{name}-{{id}}@chaos"]
        words = {
            "worker": [*celery, *quiet, "-P", "prefork", "-c", "2", "-Q", self._queue],
            # it takes no message of a job: it only sweeps
            "scheduler": [
                *(*celery, *quiet, "-P", "threads", "-c", "1"),
                *("-Q", self._nobodys),
            ],
            "caller": ["-m", "tests.chaos.sharding.caller"],
        }[role]
        return ProcessContainer(
            [sys.executable, *words],
            name=name,
            cwd=ROOT,
            env={
                "PECKER_CHAOS_CONF": json.dumps(conf),
                "PECKER_CHAOS_ROLE": role,
                "PECKER_CHAOS_FOLDER": str(self.folder),
                **constants(sweep=0.5, resend=2.0, flush=0.2, slice=0.5),
            },
        )
