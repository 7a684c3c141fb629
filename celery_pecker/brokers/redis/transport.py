"""Redis to the publisher: how it is connected to, and how it takes no writes."""

import re
import socket
from collections.abc import Iterator
from typing import Any

import kombu.transport.redis
import redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)
from redis.retry import Retry

from celery_pecker.brokers.publisher.transport import Transport, abort
from celery_pecker.kernel.errors import BrokerRefuses

UNNAMED = () if redis.VERSION >= (5, 3) else ("_",)
"""What a pool of redis-py wants to hear of a connection that is for no command."""
_TAKES_NO_WRITES = (
    *(OutOfMemoryError, ReadOnlyError, BusyLoadingError),
    *(ClusterDownError, MasterDownError),
)
_SAYS_NO = re.compile(
    # Redis 6 puts what a script met into an error of its own
    r"^(Error running script \(call to \w+\): (@user_script: ?\d+: ){2}-)?"
    r"(OOM|READONLY|MISCONF|LOADING|BUSY|CLUSTERDOWN|MASTERDOWN|NOREPLICAS) "
)


def takes_no_writes(error: BaseException) -> bool:
    """Return whether Redis says that it takes no writes now, of whatever message."""
    return isinstance(error, _TAKES_NO_WRITES) or (
        isinstance(error, ResponseError) and _SAYS_NO.search(str(error)) is not None
    )


def sentinel_options(options: dict[str, Any], *, sentinels: int) -> dict[str, Any]:
    """Return how to ask Sentinels: once, each for its share of the time.

    redis-py asks each four times, with pauses of seconds, and all after one another:
    26 s for one that accepts and is silent, in which the scheduler's loop stood still.
    """
    names = ("socket_timeout", "socket_connect_timeout")
    shares = {name: float(options[name]) / sentinels for name in names}
    kept = {
        name: value for name, value in options.items() if name.startswith("socket_")
    }
    own = options.get("sentinel_kwargs")
    return {
        **(kept if own is None else own),
        **shares,
        **{name: own[name] for name in names if own and own.get(name) is not None},
        "retry": Retry(NoBackoff(), 0),
    }


class Redis(Transport):
    """A Redis, or what Sentinels say is it."""

    lane = "celery_pecker.brokers.redis.lane:RedisLane"
    stored = "celery_pecker.brokers.redis.lane:StoredRedis"
    ends_batch = (ResponseError,)  # kombu before 5.7 tells of each message itself
    takes_no_writes = staticmethod(takes_no_writes)
    classes = (kombu.transport.redis.Transport, kombu.transport.redis.SentinelTransport)

    def set_options(self) -> None:
        """Bound what redis-py does, which sends nothing again."""
        options = self.connection.transport_options
        for option in ("socket_timeout", "socket_connect_timeout"):
            if options.get(option) is None:
                options[option] = self.broker.timeout
        # redis-py would send a command again that may have been done already
        options["retry_on_timeout"] = False
        if issubclass(self.connection.get_transport_cls(), self.classes[1]):
            options["sentinel_kwargs"] = sentinel_options(
                options, sentinels=len(self.connection.alt) or 1
            )

    def open(self) -> None:
        """Open a channel, and see that Redis takes writes."""
        super().open()
        self.ask()

    def check_socket(self) -> None:
        """Have the pool look at a connection."""
        pool = self.broker.channel.pool
        pool.release(pool.get_connection(*UNNAMED))

    def ask(self) -> None:
        """Have Redis answer a write that changes nothing; raise BrokerRefuses.

        A replica, a full Redis and one that cannot save answer each PING.
        """
        pool = self.broker.channel.pool
        connection = pool.get_connection(*UNNAMED)
        try:
            key = f"{self.broker.channel.global_keyprefix}pecker:none"
            connection.send_command("LPUSHX", key, "", check_health=False)
            connection.read_response()
        except ResponseError as error:
            if takes_no_writes(error):
                raise BrokerRefuses(f"Redis takes no writes: {error}") from error
            # No right to this key or command, or a proxy: that is a sign of life.
        finally:
            pool.release(connection)

    def hang_up(self) -> None:
        """Close the sockets of all pools."""
        abort(self.sockets())
        for channel in list(self.connection.transport.channels):
            channel._disconnect_pools()  # noqa: SLF001 (close() may talk to Redis)

    def sockets(self) -> Iterator[socket.socket]:
        """Yield the sockets of all pools."""
        for channel in list(self.connection.transport.channels):
            for pool in (channel._pool, channel._async_pool):  # noqa: SLF001 (the properties would connect)
                yield from _pooled(pool)

    def concerns_message(self, error: BaseException) -> bool:
        """Return whether the list of the message is refused, or it has no frame."""
        if isinstance(error, NoPermissionError):
            return "access" in str(error)  # to its key; else no message may be sent
        refused = isinstance(error, ResponseError) and not takes_no_writes(error)
        return refused or super().concerns_message(error)

    def why_forbidden(self, error: BaseException | None) -> str | None:
        """Return why: asked for a sign of life before each claim, Redis gives it."""
        if isinstance(error, NoPermissionError):
            return f"Redis lets this user send no messages: {error}"
        return None


def _pooled(pool: Any) -> Iterator[socket.socket]:
    """Return the sockets of a redis-py pool, if there is one."""
    for connections in ("_available_connections", "_in_use_connections"):
        for connection in list(getattr(pool, connections, None) or ()):
            sock = getattr(connection, "_sock", None)
            if sock is not None:
                yield sock
