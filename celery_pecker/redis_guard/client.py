"""One Redis client for a channel, instead of two for each message.

kombu makes a client for each call that it does not send over the connection it reads
from: two for a message, one to record it and one to acknowledge it. redis-py fills a
table of some 170 commands for each: a fourth of what the main process of a worker
spends on a task that does nothing. A client keeps nothing but that table and its pool,
so that one serves them all.
"""

from __future__ import annotations

from typing import Any


def keep_client(channel: Any) -> None:
    """Let a channel of kombu's Redis transport use one client as long as its pool."""
    make = channel._create_client  # noqa: SLF001 - what kombu calls for each
    kept: dict[Any, Any] = {}

    def create(asynchronous: bool = False) -> Any:
        if asynchronous:  # of these kombu keeps what it needs
            return make(asynchronous=True)
        pool = channel.pool
        client = kept.get(pool)
        if client is None:
            kept.clear()
            client = kept[pool] = make()
        return client

    channel._create_client = create  # noqa: SLF001 - as above
