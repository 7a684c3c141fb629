"""What lies on a broker, as a test of deliveries reads it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Protocol

import redis
from kombu import Connection


class Wire(Protocol):
    """A queue on a broker."""

    url: str
    exact: bool
    """Whether a batch that is pushed a second time adds nothing."""

    def task_ids(self) -> Counter[str]:
        """Take all messages; return how often each task's id was among them."""
        ...


class RedisWire:
    """Lists of a Redis."""

    exact = True

    def __init__(self, url: str, queue: str) -> None:
        self.url = url
        self.queue = queue
        self.client = redis.Redis.from_url(url)

    def messages(self) -> list[dict[str, Any]]:
        """Take all messages, oldest first."""
        texts: Any = self.client.lrange(self.queue, 0, -1)
        self.client.delete(self.queue)
        return [json.loads(text) for text in reversed(texts)]

    def task_ids(self) -> Counter[str]:
        """Take all messages; return how often each task's id was among them."""
        return Counter(one["headers"]["id"] for one in self.messages())

    def make(self) -> None:
        """Do nothing: a list is there once it is pushed to."""

    def close(self) -> None:
        """Give the connection back."""
        self.client.delete(self.queue)
        self.client.close()


class RabbitWire:
    """A queue of a RabbitMQ."""

    exact = False

    def __init__(self, url: str, queue: str) -> None:
        self.url = url
        self.queue = queue

    def make(self) -> None:
        """Declare the queue: nobody else does in these tests."""
        with Connection(self.url) as connection:
            channel: Any = connection.default_channel
            channel.queue_declare(self.queue, durable=True, auto_delete=False)

    def task_ids(self) -> Counter[str]:
        """Take all messages; return how often each task's id was among them."""
        found: Counter[str] = Counter()
        with Connection(self.url) as connection:
            channel: Any = connection.default_channel
            while (raw := channel.basic_get(self.queue, no_ack=True)) is not None:
                found[raw.headers["id"]] += 1
        return found

    def close(self) -> None:
        """Remove the queue."""
        with Connection(self.url) as connection:
            channel: Any = connection.default_channel
            channel.queue_delete(self.queue)
