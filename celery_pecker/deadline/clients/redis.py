"""redis-py that waits no longer than the deadline.

    client = redis.Redis.from_url(url)
    deadline.clients.redis.install(client)

Connecting, commands, pipelines, pub/sub, retries with their pauses, and the wait for a
free connection of a blocking pool: all of it ends at the deadline, also while the
server sends a byte now and then. A connection that was cut off is closed: an answer
that comes too late would be taken for that of the next command.
"""

from functools import cache
from typing import Any

import redis
from redis.backoff import AbstractBackoff
from redis.retry import Retry

from celery_pecker.deadline.budget import check, ending, timeout
from celery_pecker.deadline.clients.sockets import bound
from celery_pecker.kernel.errors import Misconfigured


def install(client: redis.Redis | redis.ConnectionPool) -> None:
    """Let a client, or a pool of connections, obey the deadline.

    Connections of the pool that stand idle are dropped. Call it before first use.
    """
    pool: Any = getattr(client, "connection_pool", client)
    if not isinstance(pool, redis.ConnectionPool):
        raise Misconfigured(
            f"deadline.clients.redis.install({type(client).__name__}): allowed is a"
            " redis.Redis with a pool, or a redis.ConnectionPool"
        )
    pool.disconnect()
    pool.reset()
    pool.connection_class = bounded(pool.connection_class)
    if isinstance(pool, redis.BlockingConnectionPool):
        pool.__class__ = _bounded_pool(type(pool))


@cache
def bounded(kind: type[Any]) -> type[Any]:
    """Return a class of connections, made to obey the deadline."""
    if issubclass(kind, _Connection):
        return kind
    return type(f"Bounded{kind.__name__}", (_Connection, kind), {})


@cache
def _bounded_pool(kind: type[Any]) -> type[Any]:
    """Return a class of pools in which no thread waits beyond the deadline."""

    def get_connection(self: Any, *args: Any, **kwargs: Any) -> Any:
        with ending(redis.ConnectionError, redis.TimeoutError):
            return kind.get_connection(self, *args, **kwargs)

    # the pool's timeout is one for all threads: looked up each time
    bounded_timeout = property(
        lambda self: timeout(self.__dict__["timeout"]),
        lambda self, value: self.__dict__.update(timeout=value),
    )
    added = {
        "get_connection": get_connection,
        "timeout": bounded_timeout,
        "_bounded": True,
    }
    return kind if hasattr(kind, "_bounded") else type(kind.__name__, (kind,), added)


class _Connection:
    """What is mixed into a class of connections."""

    retry: Any
    socket_connect_timeout: float | None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not isinstance(self.retry, _Retry):
            self.retry = _Retry(self.retry)

    def _connect(self) -> Any:
        own = self.socket_connect_timeout
        self.socket_connect_timeout = timeout(own)
        try:
            return bound(super()._connect())  # type: ignore[misc]
        finally:
            self.socket_connect_timeout = own


class _Backoff(AbstractBackoff):
    """The pauses that were asked for, until the deadline."""

    def __init__(self, own: Any) -> None:
        self._own = own

    def reset(self) -> None:
        """Begin anew; nothing is begun after the deadline."""
        check()
        self._own.reset()

    def compute(self, failures: int) -> float:
        """Return the seconds to wait; raise DeadlineExceeded when nothing is left."""
        return timeout(self._own.compute(failures)) or 0.0


class _Retry(Retry):
    """The retries that were asked for, until the deadline."""

    def __init__(self, rules: Any) -> None:
        super().__init__(
            _Backoff(rules._backoff),  # noqa: SLF001
            rules._retries,  # noqa: SLF001
            rules._supported_errors,  # noqa: SLF001
        )

    def call_with_retry(self, *args: Any, **kwargs: Any) -> Any:
        """Call; what fails after the deadline has exceeded it."""
        with ending(*self._supported_errors):
            return super().call_with_retry(*args, **kwargs)
