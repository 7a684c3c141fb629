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
from pathlib import Path
from typing import Any, Self

import psycopg
import redis
from celery import Celery
from psycopg import sql

from benchmarks.peers.environment import ENVIRONMENT
from benchmarks.schedules.arrivals import Arrivals
from benchmarks.schedules.subjects import Subject
from benchmarks.servers import Servers
from celery_pecker.kernel.migrations import migrate
from celery_pecker.testing import eventually
from example_project.processes import ProcessContainer
from tests.told import telling

ROOT = Path(__file__).resolve().parents[2]
READY_WITHIN = 60.0
SLOWEST_LOAD = 200
"""Entries a second that a peer writes at least."""
SCHEDULERS = {
    Subject.REDBEAT: "redbeat.RedBeatScheduler",
    Subject.DJANGO: "django",
    Subject.SQLALCHEMY: "sqlalchemy",
}


class Trial:
    """A place for schedulers of one app with so many per-second entries."""

    def __init__(
        self,
        servers: Servers,
        *,
        entries: int = 1,
        broker: str = "redis",
        patient: bool = False,
    ) -> None:
        """`patient`: a scheduler may end by itself; what it did until then counts."""
        self.servers = servers
        self._patient = patient
        self.entries = entries
        self.name = f"bench_{secrets.token_hex(4)}"
        url = servers.broker(broker)
        if url is None:
            msg = f"{broker} does not answer"
            raise LookupError(msg)
        self._broker = url
        self.folder = Path(tempfile.mkdtemp(prefix="pecker-bench-"))
        self._started: list[ProcessContainer] = []
        self._stopped: list[ProcessContainer] = []
        self._loaded: set[Subject] = set()
        self._app = Celery("bench-queue", broker=url)
        self._app.conf.task_default_queue = self.name
        self.consumer = self._process(
            "consumer",
            ["-m", "benchmarks.schedules.consumer"],
            telling(url, self.name, str(self._file)),
        )

    def __enter__(self) -> Self:
        """Tables and queue are there, and somebody counts."""
        with self._app.connection_for_write() as connection:
            self._app.amqp.queues[self.name].bind(connection.default_channel).declare()
        migrate(self.servers.dsn, schema=self.name)
        self.consumer.start()
        self.await_words(self.consumer, "consumer: ready")
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing of the trial is left."""
        for process in reversed(self._started):
            process.remove()
        shutil.rmtree(self.folder, ignore_errors=True)
        with psycopg.connect(self.servers.dsn, autocommit=True) as connection:
            named = sql.Identifier(self.name)
            connection.execute(sql.SQL("drop schema {} cascade").format(named))
        with redis.Redis.from_url(self.servers.redis) as client:
            ours = [*client.scan_iter(f"{self.name}:*", count=1000), self.name]
            bound = [f"_kombu.binding.{self.name}{end}" for end in ("", ".idle")]
            client.delete(*ours, *bound)
        if not self._broker.startswith("redis"):
            with self._app.connection_for_write() as wire:
                channel: Any = wire.default_channel
                channel.queue_delete(self.name)

    def start(self, subject: Subject, **given: str) -> ProcessContainer:
        """Return a scheduler that has sent its first messages."""
        process = self.launch(subject, **given)
        self.await_ready(process, subject)
        return process

    def launch(
        self, subject: Subject, *, level: str = "", **given: str
    ) -> ProcessContainer:
        """Return a scheduler that has just been started; its entries are there."""
        words = self._words(subject, level)
        settings = self._settings(subject, given)
        if subject.peer and subject not in self._loaded:
            self._load(subject, settings)
        process = self._process(subject, words, settings)
        process.start()
        return process

    def edit(self, subject: Subject, **given: str) -> ProcessContainer:
        """Return a process that changes the entries of a trial while they run."""
        process = self._process(
            f"editing {subject}",
            ["-m", "benchmarks.peers.editing"],
            self._settings(subject, given),
        )
        process.start()
        return process

    def ended(self, process: ProcessContainer, within: float) -> None:
        """A process that ends by itself has done so, and well."""
        code = process.wait(within)
        self._stopped.append(process)
        if code:
            msg = f"{process.name}: {process.life_log()[-2000:]}"
            raise RuntimeError(msg)

    def _settings(self, subject: Subject, given: dict[str, str]) -> dict[str, str]:
        environment = {
            "ENTRIES": str(self.entries),
            "BROKER": self._broker,
            "REDIS": self.servers.redis,
            "QUEUE": self.name,
            "DSN": self.servers.dsn,
            "SCHEMA": self.name,
            "LANE": "slow" if subject is Subject.SLOW else "",
            "PEER": subject.peer,
            "WORKER": "1" if subject is Subject.WORKER else "",
            **given,
        }
        settings = {ENVIRONMENT + key: value for key, value in environment.items()}
        if subject is Subject.DJANGO:
            settings["DJANGO_SETTINGS_MODULE"] = "benchmarks.peers.django_settings"
        return settings

    def _words(self, subject: Subject, level: str) -> list[str]:
        """Return the command line of a scheduler."""
        words = ["-m", "celery", "-A", "benchmarks.schedules.app"]
        if subject is Subject.WORKER:
            # its queue is another: the consumer takes what is counted
            words += ["worker", "-c", "1", "-Q", f"{self.name}.idle"]
            words += ["-n", f"{self.name}@%h", "-l", level or "INFO"]
            return [*words, "--without-gossip", "--without-mingle"]
        words += ["beat", "--pidfile="]
        if subject is Subject.BEAT:
            words += ["-s", str(self.folder / f"schedule-{len(self._started)}")]
        if subject.ours:
            # One line a wake-up. The others would write one for each message at this
            # level: they keep their default, which is WARNING.
            return [*words, "-S", "pecker", "-l", level or "INFO"]
        if subject.peer:
            words += ["-S", SCHEDULERS[subject]]
        return [*words, "-l", level] if level else words

    def _load(self, subject: Subject, settings: dict[str, str]) -> None:
        """The peer's tables are there, and all entries in them."""
        self._loaded.add(subject)
        process = self._process(
            f"loading {subject}", ["-m", "benchmarks.peers"], settings
        )
        process.start()
        self.ended(process, READY_WITHIN + self.entries / SLOWEST_LOAD)

    def await_ready(self, process: ProcessContainer, subject: Subject) -> None:
        """The scheduler does its work."""
        if subject.ours:
            self.await_words(process, "pecker: ready")
        else:
            self.await_words(self.consumer, "first message", of=process)

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
            if process in self._stopped or self._patient:
                continue
            if process.exit_code is not None:
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
        self.consumer.stop(timeout=60.0)
        if not self._file.exists():
            raise RuntimeError(self.consumer.life_log()[-2000:])
        return Arrivals.load(self._file)

    @property
    def consumer_pid(self) -> int:
        """The process that counts: its CPU time is none of the scheduler's."""
        return self.consumer.pid

    @property
    def _file(self) -> Path:
        return self.folder / "arrivals.npz"

    def _process(
        self, name: str, words: list[str], environment: dict[str, str]
    ) -> ProcessContainer:
        process = ProcessContainer(
            [sys.executable, *words], name=name, cwd=ROOT, env=environment
        )
        self._started.append(process)
        return process
