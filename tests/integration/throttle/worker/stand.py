"""A worker with a gate, its broker, its Redis, and what a test asks of them."""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis
from celery import Celery

from celery_pecker.testing import eventually
from example_project.processes import ProcessContainer
from tests.constants import constants
from throttle.model import View
from throttle.store.redis import RedisStore

APP = "tests.integration.throttle.worker.app"
PLAIN = ("--without-gossip", "--without-mingle", "--without-heartbeat")
"""A second less at each connection."""
FOREVER = 3600.0
LIMIT = 10_000
PREFETCH = 4
"""Messages that a worker reserves when nothing is held."""


class Stand:
    """Workers of one app, on one queue of their own."""

    def __init__(self, folder: Path, *, broker: str, store: str, dsn: str = "") -> None:
        self.folder = folder
        self.queue = f"throttle-test-{secrets.token_hex(6)}"
        self._dsn = dsn
        self.conf: dict[str, object] = {
            "broker_url": broker,
            "task_default_queue": self.queue,
            "throttle_redis_url": store,
            "throttle_prefix": self.queue,
            "throttle_limits": {"main": LIMIT, "other": LIMIT},
            "throttle_estimator": "fast",
        }
        self.sender = Celery(broker=broker)
        self.sender.conf.task_default_queue = self.queue
        self.store = RedisStore(store, prefix=self.queue, timeout=2.0)
        self.workers: list[Any] = []

    def start(
        self,
        *options: str,
        pool: str = "prefork",
        wait: bool = True,
        prior: float | None = None,
        **conf: object,
    ) -> Any:
        """Start a worker."""
        number = len(self.workers)
        worker = ProcessContainer(
            [
                *(
                    sys.executable,
                    "-m",
                    "tests.lean",
                    "-A",
                    APP,
                    "worker",
                    "-l",
                    "INFO",
                ),
                *("-P", pool, "-c", "2", "-n", self.name(number), *PLAIN, *options),
            ],
            name=f"worker-{number}",
            env={
                "THROTTLE_TEST_FOLDER": str(self.folder),
                "THROTTLE_TEST_CONF": json.dumps({**self.conf, **conf}),
                "THROTTLE_TEST_DSN": self._dsn,
                **constants(**({} if prior is None else {"prior": prior})),
            },
        )
        self.workers.append(worker)
        worker.start()
        if wait:
            self.until(lambda: "ready." in worker.life_log(), "the worker is ready")
        return worker

    def name(self, number: int) -> str:
        """Return the name of a worker: unique on a broker that other tests share."""
        return f"w{number}@{self.queue}"

    def close(self) -> None:
        """All is gone."""
        for worker in self.workers:
            worker.remove()
        with suppress(Exception), self.sender.connection_for_write() as connection:
            queue = self.sender.amqp.queues[self.queue]
            queue(connection.default_channel).delete()
        self.sender.close()
        self.store.close()

    def until(
        self, condition: Callable[[], Any], said: str, timeout: float = 30.0
    ) -> None:
        """The condition came true."""
        try:
            eventually(condition, timeout, said, ignoring=(redis.ConnectionError,))
        except AssertionError as error:
            error.add_note(f"journal: {self.ran}")
            error.add_note(f"store: {self.store.look()}")
            for worker in self.workers:
                error.add_note(worker.life_log()[-6000:])
            raise

    # Tasks: the id of each is its name

    def send(self, task: str, *names: str, **options: Any) -> None:
        """The messages are in the queue; each one's id is its name."""
        arguments = options.pop("args", ())
        with self.sender.producer_pool.acquire(block=True) as producer:
            for name in names:
                self.sender.send_task(
                    task,
                    (name, *arguments),
                    task_id=name,
                    producer=producer,
                    **options,
                )

    def open(self, name: str) -> None:
        """The task that waits at this gate may end."""
        (self.folder / f"gate-{name}").touch()

    @property
    def lines(self) -> list[tuple[float, str]]:
        """What ran, in that order, and when."""
        with suppress(FileNotFoundError):
            journal = (self.folder / "journal").read_text().splitlines()
            return [
                (float(at), name) for at, name in (x.split(" ", 1) for x in journal)
            ]
        return []

    @property
    def ran(self) -> Counter[str]:
        """What ran, and how often."""
        return Counter(name for _, name in self.lines)

    def ran_all(self, *names: str) -> Callable[[], bool]:
        """Say whether all of these ran."""
        return lambda: set(names) <= set(self.ran)

    # The database

    def shut(self, database: str = "main") -> None:
        """Nothing passes any more, from each worker's next report on."""
        self.store.lower(database, 0.0, "the test", FOREVER)

    def reopen(self, database: str = "main") -> None:
        """The limit is whole again."""
        self.store.lower(database, 1.0, "the test", FOREVER)

    def view(self, database: str = "main") -> View:
        """What is known of the database."""
        return self.store.look()[database]

    def held(self, database: str = "main") -> int:
        """How many are held, by all workers that were heard of."""
        with suppress(KeyError):
            holders = self.view(database).holders.values()
            return sum(one.holding.held for one in holders)
        return 0

    def until_shut(self, database: str = "main", workers: int = 1) -> None:
        """The database is shut and its workers know."""
        self.shut(database)
        self.until(
            lambda: (
                len(self.view(database).holders) == workers
                and not any(one.share for one in self.view(database).holders.values())
            ),
            "its workers know",
        )

    def until_held(self, count: int, database: str = "main") -> None:
        """So many are held."""
        if count > PREFETCH:
            self.need_rising_prefetch()
        self.until(lambda: self.held(database) == count, f"{count} are held")

    def need_rising_prefetch(self) -> None:
        """Skip the test on a broker that fixes prefetch as a consumer starts."""
        with self.sender.connection_for_write() as connection:
            connection.connect()
            fixed = connection.qos_semantics_matches_spec
            if fixed and connection.transport.driver_type == "amqp":
                pytest.skip("RabbitMQ from 4.0 on: a worker's prefetch cannot rise")

    # The worker

    def inspect(self, what: str = "throttle", **arguments: Any) -> Any:
        """What the first worker answers."""
        asking: Any = self.sender.control.inspect([self.name(0)], timeout=30)
        return asking._request(what, **arguments)[self.name(0)]

    def cut(self, broker: str) -> None:
        """The broker, a Redis, closed all connections but those of this process."""
        ours = {one.laddr.port for one in psutil.Process().net_connections("tcp")}
        with redis.Redis.from_url(broker) as client:
            for one in client.client_list():
                if int(one["addr"].rpartition(":")[2]) not in ours:
                    client.client_kill_filter(_id=one["id"])

    def end(self, kind: int = signal.SIGTERM, timeout: float = 60.0) -> None:
        """The first worker was told to end, and has ended.

        SIGQUIT that interrupts Celery while it reads from RabbitMQ costs 5 seconds at
        each call that the broker does not answer then.
        """
        os.kill(self.workers[0].pid, kind)
        self.until(lambda: self.workers[0].exit_code is not None, "it ended", timeout)
