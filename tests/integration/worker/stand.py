"""A worker, its Redis, and what a test wants to know of both."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import redis
from celery import Celery

from celery_pecker.testing import EmbeddedRedis, eventually
from example_project.processes import ProcessContainer

PLAIN = ("--without-gossip", "--without-mingle", "--without-heartbeat")
"""A second less at each connection."""


class Stand:
    """One worker process on one Redis of its own."""

    def __init__(self, server: EmbeddedRedis, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.redis: redis.Redis = redis.Redis.from_url(server.url)
        self.sender = Celery(broker=server.url)
        self.worker: Any = None

    def start(self, *options: str, guarded: bool = True, **conf: object) -> None:
        """The worker is ready."""
        self.worker = ProcessContainer(
            [
                *(
                    sys.executable,
                    "-m",
                    "tests.lean",
                    "-A",
                    "tests.integration.worker.app",
                ),
                *("worker", "-l", "INFO", *options),
            ],
            name="worker",
            env={
                "PECKER_TEST_FOLDER": str(self.folder),
                "PECKER_TEST_CONF": json.dumps({"broker_url": self.server.url, **conf}),
                **({} if guarded else {"PECKER_TEST_UNGUARDED": "1"}),
            },
        )
        self.worker.start()
        self.until(lambda: "ready." in self.log, "the worker is ready")

    def close(self) -> None:
        """All is gone."""
        self.sender.close()
        self.redis.close()
        if self.worker is not None:
            self.worker.remove()

    @property
    def log(self) -> str:
        """All that the worker said."""
        text: bytes = self.worker.logs()
        return text.decode(errors="replace")

    def until(self, condition: Any, said: str, timeout: float = 30.0) -> None:
        """The condition came true."""
        try:
            eventually(condition, timeout, said, ignoring=(redis.ConnectionError,))
        except AssertionError as error:
            error.add_note(f"journal: {self.journal}\n{self.log[-6000:]}")
            raise

    # Tasks: the id of each is its name

    def send(self, task: str, name: str, **options: Any) -> None:
        """The message is in the queue."""
        self.sender.send_task(task, (name,), task_id=name, **options)

    def open(self, *names: str) -> None:
        """The tasks that wait at these gates may end."""
        for name in names:
            (self.folder / f"gate-{name}").touch()

    @property
    def journal(self) -> Counter[str]:
        """What tasks wrote down, and how often."""
        return Counter(self.lines)

    @property
    def lines(self) -> list[str]:
        """What tasks wrote down, in that order."""
        with suppress(FileNotFoundError):
            return (self.folder / "journal").read_text().splitlines()
        return []

    @property
    def accepted(self) -> set[str]:
        """Ids of tasks of which the worker knows that, and in which process, they run.

        A task writes its journal before: until its process has said so, Celery's cold
        shutdown waits for the task's end.
        """
        told = self.sender.control.inspect(timeout=30.0, limit=1).active() or {}
        return {task["id"] for tasks in told.values() for task in tasks}

    # What Redis knows

    @property
    def held(self) -> dict[str, float]:
        """Ids of delivered, unacknowledged messages, and when they were delivered."""
        with self.redis.pipeline() as pipe:
            pipe.zrange("unacked_index", 0, -1, withscores=True)
            pipe.hgetall("unacked")
            index, payloads = pipe.execute()
        stamps = dict(index)
        assert set(stamps) == set(payloads), "hash and index know the same messages"
        return {
            json.loads(payload)[0]["headers"]["id"]: stamps[tag]
            for tag, payload in payloads.items()
        }

    @property
    def queued(self) -> list[str]:
        """Ids of the messages in the queue, the next one first."""
        return [
            json.loads(payload)["headers"]["id"]
            for payload in reversed(self.redis.lrange("celery", 0, -1))
        ]

    # Losses

    def lose_redis(self) -> None:
        """Redis was killed and the worker knows."""
        lost = self.log.count("Connection to broker lost")
        self.server.kill()
        self.until(
            lambda: (
                self.log.count("Connection to broker lost") > lost or not self.running
            ),
            "the worker noticed the loss",
        )

    def restart_redis(self, *, slowly: bool = False) -> None:
        """Redis was killed and started, and the worker is connected again.

        `slowly`: not before the worker noticed. Its first attempts to connect fail, it
        waits two seconds and more between them, and so does the test.
        """
        before = self.connections
        if slowly:
            self.lose_redis()
        else:
            self.server.kill()
        self.server.start()
        self.until(lambda: self.connections > before, "the worker reconnected")

    def freeze_while_it_fetches(self) -> bool:
        """The worker stands still, and Redis has its question."""
        os.kill(self.worker.pid, signal.SIGSTOP)
        info: Any = self.redis.info("clients")
        if not info["blocked_clients"]:
            os.kill(self.worker.pid, signal.SIGCONT)
            return False
        return True

    def cut(self) -> None:
        """The worker's connections were cut, Redis was well, and it is back."""
        before = self.connections
        for kind in ("normal", "pubsub"):
            self.redis.client_kill_filter(_type=kind, skipme=True)
        self.until(lambda: self.connections > before, "the worker reconnected")

    @property
    def losses(self) -> int:
        """How often the worker lost its connection."""
        return self.log.count("Connection to broker lost")

    @property
    def connections(self) -> int:
        """How often the worker connected."""
        return self.log.count("Connected to redis://")

    @property
    def running(self) -> bool:
        """The worker's process is there."""
        return self.worker.exit_code is None
