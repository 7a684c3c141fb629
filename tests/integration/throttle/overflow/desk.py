"""A consumer on a real broker without a worker around it: messages stay in hand."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from celery import Celery
from kombu.common import QoS

from celery_pecker.kernel.clock import now
from celery_pecker.testing import eventually
from throttle.model import Limit, Target
from throttle.settings import Settings
from throttle.worker.brokers import broker_of
from throttle.worker.brokers.broker import Broker, Callbacks, Held

PREFETCH = 4


@dataclass
class Hand:
    """A request as far as a broker wants one."""

    message: Any
    acknowledged: bool = False

    @property
    def id(self) -> str:
        """The task's."""
        return str(self.message.headers["id"])

    @property
    def name(self) -> str:
        """What the test calls it."""
        return str(self.message.payload[0][0])

    def acknowledge(self) -> None:
        """The message is done with."""
        if not self.acknowledged:
            self.message.ack()
            self.acknowledged = True


@dataclass
class Desk:
    """Consumes from one queue, or several, and hands its messages to a broker part."""

    url: str
    queues: tuple[str, ...] = ("work",)
    mark: str = field(default_factory=lambda: secrets.token_hex(4))
    elastic: bool = True
    prefetch: int = PREFETCH
    options: dict[str, Any] = field(default_factory=dict)
    conf: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.app = Celery(broker=self.url)
        self.app.conf.task_default_queue = self.name("work")
        self.app.conf.broker_transport_options = self.options
        self.app.conf.update(self.conf)
        self.app.amqp.queues.select([self.name(queue) for queue in self.queues])
        only = {"a": (self.name("only"),), "b": ()}
        self.settings = Settings(
            redis_url="redis://",
            limits={
                name: Limit(database=name, operations=1, queues=queues)
                for name, queues in only.items()
            },
            prefix=self.mark,
        )
        self.parking = self.settings.parking
        self.came: list[Hand] = []
        """Messages in hand, in the order in which they came."""
        self.told: list[tuple[str, str]] = []
        self.later: deque[Callable[[], object]] = deque()
        self.connect()

    def name(self, queue: str) -> str:
        """Return the name of a queue of this test's own."""
        return f"{queue}-{self.mark}"

    def connect(self) -> None:
        """Consume, as Celery's consumer does."""
        self.connection: Any = self.app.connection_for_read()
        channel: Any = self.connection.default_channel
        channel.basic_qos(0, self.prefetch, self.elastic)
        amqp: Any = self.app.amqp
        tasks: Any = amqp.TaskConsumer(self.connection)
        tasks.on_message = lambda message: self.came.append(Hand(message))
        tasks.consume()
        self.qos = QoS(
            lambda prefetch_count: tasks.qos(
                prefetch_count=prefetch_count, apply_global=self.elastic
            ),
            self.prefetch,
        )
        self.qos.prev = self.prefetch
        self.tasks = tasks
        self.consumer = SimpleNamespace(
            app=self.app,
            connection=self.connection,
            task_consumer=tasks,
            qos=self.qos,
            qos_global=self.elastic,
            hub=SimpleNamespace(call_soon=self.later.append),
            call_soon=self.later.append,
            connection_errors=self.connection.connection_errors,
            channel_errors=self.connection.channel_errors,
        )
        self.broker: Broker = broker_of(self.consumer, self.settings, self._hears())

    def _hears(self) -> Callbacks:
        return Callbacks(
            parked=lambda held: self.told.append(("parked", held.request.name)),
            kept=lambda held: self.told.append(("kept", held.request.name)),
            gone=lambda held: self.told.append(("gone", held.request.name)),
        )

    def close(self, *, kindly: bool = True) -> None:
        """The connection is closed; what was in hand goes back."""
        if kindly:
            with suppress(*self.consumer.connection_errors):
                self.broker.stop()
                self.tasks.cancel()
        self.connection.close()
        self.app.close()

    def remove(self) -> None:
        """The broker keeps nothing of it."""
        parkings = [
            f"{self.parking}.{database}.{self.name(queue)}"
            for database in ("a", "b")
            for queue in ("work", "only")
        ]
        with Celery(broker=self.url) as app, app.connection_for_write() as made:
            connection: Any = made
            for name in [*parkings, self.name("work"), self.name("only")]:
                connection.default_channel.queue_delete(name)

    # What a test does

    def send(self, *names: str, queue: str = "work", **options: Any) -> None:
        """Messages are in the queue."""
        for name in names:
            self.app.send_task("task", (name,), queue=self.name(queue), **options)

    def until(self, condition: Callable[[], Any], said: str) -> None:
        """Turn the loop until it came true."""

        def turned() -> bool:
            self.turn(until=condition)
            return bool(condition())

        eventually(turned, 30.0, said)

    def turn(self, until: Callable[[], Any] = bool) -> None:
        """Once, as the worker's loop; nothing is fetched any more if that came true."""
        if self.qos.prev != self.qos.value:
            self.qos.update()
        while self.later:
            self.later.popleft()()
        with suppress(TimeoutError):
            for _ in range(100):
                if until():
                    break
                self.connection.drain_events(timeout=0.02)

    def get(self, *names: str) -> list[Held]:
        """Return these messages when they have come."""
        self.until(lambda: set(names) <= set(self.hand), f"{names} came")
        return [self.held(name) for name in names]

    @property
    def hand(self) -> list[str]:
        """Names of what came, in order."""
        return [one.name for one in self.came]

    def held(self, name: str) -> Held:
        """Return the last message of that name as it is held."""
        hand = next(one for one in reversed(self.came) if one.name == name)
        return Held(request=hand, since=now().timestamp(), target=Target("a"))

    def attend(self, *databases: str) -> bool:
        """Parking queues of these are consumed, as far as they are there."""
        self.broker.attend(databases)
        return True

    def parks(self, *names: str, database: str = "a") -> None:
        """These came and are parked."""
        self.broker.park(database, self.get(*names))
        self.until(lambda: len(self.told) >= len(names), "all are told")
        assert self.told == [("parked", name) for name in names]

    def forget(self) -> None:
        """Nothing came so far, nothing was told."""
        self.came.clear()
        self.told.clear()

    def forget_told(self) -> None:
        """Nothing was told."""
        self.told.clear()

    def length(self, name: str) -> int:
        """Return how many messages wait in a queue, by its whole name."""
        with self.app.connection_for_write() as made:
            connection: Any = made
            declared = connection.default_channel.queue_declare(name, passive=True)
            return int(declared.message_count)

    def parking_of(self, database: str, queue: str = "work") -> str:
        """Return the name of a parking queue."""
        return f"{self.parking}.{database}.{self.name(queue)}"
