"""One trial: fresh tables, a fresh queue, schedulers, and somebody who counts.

What belongs to a trial (schema, queue, processes, files) is gone when it ends.
"""

from __future__ import annotations

import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
import redis
from celery import Celery
from psycopg import sql

from benchmarks.arrivals import Arrivals
from benchmarks.ground import Ground
from celery_pecker.migrations import migrate
from celery_pecker.testing import eventually
from celery_pecker.testing.processes import ProcessContainer

ROOT = Path(__file__).resolve().parents[1]
READY_WITHIN = 60.0


class Subject(StrEnum):
    """What is measured."""

    FAST = "pecker"
    SLOW = "pecker, slow lane"
    BEAT = "celery beat"


class Trial:
    """A place for schedulers of one app with so many per-second entries."""

    def __init__(
        self, ground: Ground, *, entries: int = 1, broker: str = "redis"
    ) -> None:
        self.ground = ground
        self.entries = entries
        self.name = f"bench_{secrets.token_hex(4)}"
        url = ground.broker(broker)
        if url is None:
            msg = f"{broker} does not answer"
            raise LookupError(msg)
        self._broker = url
        self._folder = Path(tempfile.mkdtemp(prefix="pecker-bench-"))
        self._started: list[ProcessContainer] = []
        self._stopped: list[ProcessContainer] = []
        self._app = Celery("bench-queue", broker=url)
        self._app.conf.task_default_queue = self.name
        self._consumer = self._process(
            "consumer",
            ["-m", "benchmarks.consumer", url, self.name, str(self._file)],
            {},
        )

    def __enter__(self) -> Self:
        """Tables and queue are there, and somebody counts."""
        with self._app.connection_for_write() as connection:
            self._app.amqp.queues[self.name].bind(connection.default_channel).declare()
        migrate(self.ground.dsn, schema=self.name)
        self._consumer.start()
        self.await_words(self._consumer, "consumer: ready")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing of the trial is left."""
        for process in reversed(self._started):
            process.remove()
        shutil.rmtree(self._folder, ignore_errors=True)
        with psycopg.connect(self.ground.dsn, autocommit=True) as connection:
            named = sql.Identifier(self.name)
            connection.execute(sql.SQL("drop schema {} cascade").format(named))
        if self._broker.startswith("redis"):
            with redis.Redis.from_url(self._broker) as client:
                client.delete(self.name, f"_kombu.binding.{self.name}")
        else:
            with self._app.connection_for_write() as wire:
                channel: Any = wire.default_channel
                channel.queue_delete(self.name)

    def start(self, subject: Subject, **given: str) -> ProcessContainer:
        """Return a scheduler that has sent its first messages."""
        process = self.launch(subject, **given)
        self.await_ready(process, subject)
        return process

    def launch(self, subject: Subject, **given: str) -> ProcessContainer:
        """Return a scheduler that has just been started."""
        number = len(self._started)
        words = ["-m", "celery", "-A", "benchmarks.app", "beat", "--pidfile="]
        words += ["-s", str(self._folder / f"schedule-{number}")]
        if subject is not Subject.BEAT:
            # One line a wake-up. Beat would write one for each message at this
            # level: it keeps its default, which is WARNING.
            words += ["-S", "pecker", "-l", "INFO"]
        environment = {
            "ENTRIES": str(self.entries),
            "BROKER": self._broker,
            "QUEUE": self.name,
            "DSN": self.ground.dsn,
            "SCHEMA": self.name,
            "LANE": "slow" if subject is Subject.SLOW else "",
            **given,
        }
        process = self._process(
            "scheduler",
            words,
            {f"PECKER_BENCH_{key}": value for key, value in environment.items()},
        )
        process.start()
        return process

    def await_ready(self, process: ProcessContainer, subject: Subject) -> None:
        """The scheduler does its work."""
        if subject is Subject.BEAT:
            self.await_words(self._consumer, "first message", of=process)
        else:
            self.await_words(process, "pecker: ready")

    def await_words(
        self, who: ProcessContainer, words: str, *, of: ProcessContainer | None = None
    ) -> None:
        """The words stand in the log of this life of a process."""
        judged = of or who

        def said() -> bool:
            if judged.exit_code is not None:
                msg = f"{judged.name} ended: {judged.life_log()[-2000:]}"
                raise RuntimeError(msg)
            return words in who.life_log()

        eventually(said, READY_WITHIN, f"{who.name} says {words!r}")

    def wait_until(self, instant: float, tell: Callable[[], None]) -> None:
        """The host's clock has reached the instant; `tell` was called meanwhile."""
        for process in self._started:
            if process.exit_code is not None and process not in self._stopped:
                msg = f"{process.name} ended: {process.life_log()[-500:]}"
                raise RuntimeError(msg)
        while (left := instant - time.time()) > 0:
            time.sleep(min(left, 0.5))
            tell()

    def stop(self, *processes: ProcessContainer) -> None:
        """The schedulers have ended, as they should."""
        for process in processes:
            self._stopped.append(process)
            process.stop()

    def count(self) -> Arrivals:
        """Stop to count; return what arrived."""
        self._consumer.stop(timeout=60.0)
        if not self._file.exists():
            raise RuntimeError(self._consumer.life_log()[-2000:])
        return Arrivals.load(self._file)

    @property
    def consumer_pid(self) -> int:
        """The process that counts: its CPU time is none of the scheduler's."""
        return self._consumer.pid

    @property
    def _file(self) -> Path:
        return self._folder / "arrivals.npz"

    def _process(
        self, name: str, words: list[str], environment: dict[str, str]
    ) -> ProcessContainer:
        process = ProcessContainer(
            [sys.executable, *words], name=name, cwd=ROOT, env=environment
        )
        self._started.append(process)
        return process
