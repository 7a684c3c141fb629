"""Find the sockets of a connection to a broker, and close them without a goodbye."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

from celery_pecker.brokers.publisher.brokers import Kind


def hang_up(connection: Any, kind: Kind) -> None:
    """Close the sockets of a kombu connection as if the process had died."""
    if kind is Kind.OTHER:
        # What this transport does to close is not known: release it on a thread.
        threading.Thread(target=connection.release, daemon=True).start()
        return
    for sock in sockets(connection, kind):
        _abort(sock)
    if kind is Kind.REDIS:
        for channel in list(connection.transport.channels):
            channel._disconnect_pools()  # noqa: SLF001 (close() may talk to Redis)
    elif connection._connection is not None:  # noqa: SLF001 (the property would connect)
        amqp = connection._connection  # noqa: SLF001 (as above)
        if amqp._transport is not None:  # noqa: SLF001 (as above)
            # Else amqp says goodbye by TLS on a closed socket: a ValueError, which
            # ends the thread of the caller.
            amqp._transport.sock = None  # noqa: SLF001 (as above)
        amqp.collect()


def sockets(connection: Any, kind: Kind) -> Iterator[socket.socket]:
    """Return the open sockets of a kombu connection."""
    if kind is Kind.REDIS:
        for channel in list(connection.transport.channels):
            for pool in (channel._pool, channel._async_pool):  # noqa: SLF001 (the properties would connect)
                yield from _pooled(pool)
    elif kind is Kind.RABBITMQ:
        amqp = connection._connection  # noqa: SLF001 (the property would connect)
        transport = None if amqp is None else amqp._transport  # noqa: SLF001 (as above)
        if transport is not None and transport.sock is not None:
            yield transport.sock


def _pooled(pool: Any) -> Iterator[socket.socket]:
    """Return the sockets of a redis-py pool, if there is one."""
    for connections in ("_available_connections", "_in_use_connections"):
        for connection in list(getattr(pool, connections, None) or ()):
            sock = getattr(connection, "_sock", None)
            if sock is not None:
                yield sock


def _abort(sock: socket.socket) -> None:
    """Close a socket so that the kernel forgets what it has not delivered yet.

    An ordinary close goes on sending in the background: a batch that was given up
    eight seconds ago reached a RabbitMQ that had been out of reach. The descriptor is
    closed directly, since TLS would say goodbye first and wait for the answer.
    """
    with contextlib.suppress(OSError):
        sock.settimeout(0)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # wakes a reader in another thread; shutting the writing side would send on
        sock.shutdown(socket.SHUT_RD)
    sock.close()
