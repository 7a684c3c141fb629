"""Commands to Redis with little between: ten a second come from each worker.

`Redis.execute_command` takes 80 µs of the caller's processor: a pool, its counters, a
look at the socket, retries, one chunk for each argument. This uses a connection of the
same pool (so with its TLS, password and sentinels) is kept, and a command is one write.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from redis import VERSION, Redis
from redis.exceptions import ConnectionError as Lost
from redis.exceptions import ResponseError

_UNNAMED = () if VERSION >= (5, 3) else ("_",)
"""What a pool of redis-py wants to hear of a connection that is for no command."""


class Direct:
    """Sends commands over connections of a client's pool. Threads may share it."""

    def __init__(self, client: Redis) -> None:
        self.client = client
        self._pool: Any = client.connection_pool
        self._idle: list[Any] = []
        self._pid = os.getpid()

    def call(self, words: Iterable[str]) -> Any:
        """Return the answer to one command; raise what redis-py raises."""
        sent = _packed(words)
        if self._pid != os.getpid():  # forked: these sockets are the parent's
            self._idle, self._pid = [], os.getpid()
        try:
            connection = self._idle.pop()
        except IndexError:
            return self._ask(self._pool.get_connection(*_UNNAMED), sent)
        try:
            return self._ask(connection, sent)
        except Lost:
            # It was closed while idle, or the server restarted. The
            # command may have run: all of ours may run twice. TimeoutError is no Lost.
            return self._ask(self._pool.get_connection(*_UNNAMED), sent)

    def drop(self) -> None:
        """Drop the connection; the next command makes its own."""
        while self._idle:
            connection = self._idle.pop()
            connection.disconnect()
            self._pool.release(connection)
        self._pool.disconnect(inuse_connections=False)

    def close(self) -> None:
        """Close the connections; a later call makes new ones."""
        self.drop()
        self.client.close()

    def _ask(self, connection: Any, sent: bytes) -> Any:
        answered = False
        try:
            connection.send_packed_command((sent,), check_health=False)
            answer = connection.read_response()
            answered = True
        except ResponseError:
            answered = True  # an error is an answer: nothing is left to be read
            raise
        finally:
            if answered:
                self._idle.append(connection)
            else:
                connection.disconnect()
                self._pool.release(connection)
        return answer


def _packed(words: Iterable[str]) -> bytes:
    encoded = [word.encode() for word in words]
    parts = [b"*%d\r\n" % len(encoded)]
    parts += [b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded]
    return b"".join(parts)
