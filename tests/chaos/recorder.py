"""Takes every message off a queue as it arrives, and keeps it raw until asked.

Not a Celery worker: it must see what was published, when, and twice if twice.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

import kombu
import redis

from celery_pecker.kernel.clock import SYSTEM, pause, to_us
from tests.chaos.verdict import Arrival

if TYPE_CHECKING:
    from collections.abc import Mapping

_GLANCE = 0.2
_BATCH = 1000
_AGAIN = 0.05


class Recorder(ABC):
    """A thread that empties one queue; survives a broker that goes away."""

    def __init__(self, url: str, queue: str) -> None:
        self.url = url
        self.queue = queue
        self._taken: list[tuple[float, Any]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    def __enter__(self) -> Self:
        self.prepare()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30.0)
        self.clean()

    def arrivals(self) -> list[Arrival]:
        """Return every message of ours so far, in order of arrival."""
        return [self._read(at, raw) for at, raw in list(self._taken)]

    def count(self) -> int:
        """Return how many messages have come so far."""
        return len(self._taken)

    def latest_due(self) -> float | None:
        """Return the due instant of the newest message, in seconds since 1970."""
        if not self._taken:
            return None
        return self._read(*self._taken[-1]).due_us / 1e6

    @staticmethod
    def now() -> float:
        """Return the host's wall clock in seconds, as arrivals are stamped."""
        return SYSTEM.now().timestamp()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.drain()
            except (OSError, redis.RedisError, kombu.exceptions.KombuError):
                pause(_AGAIN)

    def _take(self, raw: object) -> None:
        self._taken.append((self.now(), raw))

    def _read(self, at: float, raw: object) -> Arrival:
        headers = self.headers(raw)
        header = headers["pecker"]
        return Arrival(
            name=header["name"],
            due_us=to_us(datetime.fromisoformat(header["due_at"])),
            era=header["era"],
            epoch=header["epoch"],
            task_id=headers["id"],
            at=at,
        )

    @abstractmethod
    def prepare(self) -> None:
        """The queue is there and empty."""

    @abstractmethod
    def drain(self) -> None:
        """Take what arrives, until the recorder is stopped or the broker goes."""

    @abstractmethod
    def headers(self, raw: Any) -> Mapping[str, Any]:
        """Return the headers of a message."""

    @abstractmethod
    def clean(self) -> None:
        """Nothing of ours is left on the broker."""


class RedisRecorder(Recorder):
    """Pops a list as kombu's Redis transport would, a thousand at a time."""

    def prepare(self) -> None:
        """The queue is there and empty."""
        with redis.Redis.from_url(self.url) as client:
            client.delete(self.queue)

    def drain(self) -> None:
        """Take what arrives, until the recorder is stopped or the broker goes."""
        with redis.Redis.from_url(
            self.url, socket_timeout=5.0, socket_connect_timeout=1.0
        ) as client:
            while not self._stop.is_set():
                first = client.brpop([self.queue], timeout=_GLANCE)
                if first is None:
                    continue
                self._take(first[1])
                for raw in client.rpop(self.queue, _BATCH) or ():
                    self._take(raw)

    def headers(self, raw: Any) -> Mapping[str, Any]:
        """Return the headers of a message."""
        found: Mapping[str, Any] = json.loads(raw)["headers"]
        return found

    def clean(self) -> None:
        """Nothing of ours is left on the broker."""
        with redis.Redis.from_url(self.url, socket_timeout=2.0) as client:
            client.delete(self.queue, f"_kombu.binding.{self.queue}")


class AmqpRecorder(Recorder):
    """Consumes a queue of RabbitMQ without acknowledgements."""

    def prepare(self) -> None:
        """The queue is there and empty."""
        with kombu.Connection(self.url) as connection:
            queue = self._queue(connection)
            queue.declare()
            queue.purge()

    def drain(self) -> None:
        """Take what arrives, until the recorder is stopped or the broker goes."""
        with kombu.Connection(self.url, connect_timeout=1) as connection:
            queue = self._queue(connection)
            with connection.Consumer(
                [queue], no_ack=True, on_message=lambda m: self._take(m.headers)
            ):
                while not self._stop.is_set():
                    try:
                        connection.drain_events(timeout=_GLANCE)
                    except TimeoutError:
                        continue

    def headers(self, raw: Any) -> Mapping[str, Any]:
        """Return the headers of a message."""
        found: Mapping[str, Any] = raw
        return found

    def clean(self) -> None:
        """Nothing of ours is left on the broker."""
        with kombu.Connection(self.url) as connection:
            self._queue(connection).delete()
            kombu.Exchange(self.queue, channel=connection.channel()).delete()

    def _queue(self, connection: kombu.Connection) -> kombu.Queue:
        exchange = kombu.Exchange(self.queue, "direct")
        return kombu.Queue(
            self.queue, exchange, routing_key=self.queue, channel=connection.channel()
        )


def recorder(url: str, queue: str) -> Recorder:
    """Return the recorder that suits the broker's URL."""
    kind = RedisRecorder if url.startswith("redis") else AmqpRecorder
    return kind(url, queue)
