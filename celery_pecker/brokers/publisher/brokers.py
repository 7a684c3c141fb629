"""Which brokers are known, how Sentinels are asked, and how Redis takes no writes."""

from __future__ import annotations

import enum
import re
from typing import Any

import kombu.transport.pyamqp
import kombu.transport.redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)
from redis.retry import Retry


class Kind(enum.StrEnum):
    """What is on the other side, as far as it matters here."""

    REDIS = "redis"
    RABBITMQ = "rabbitmq"
    OTHER = "other"


KINDS = {
    kombu.transport.redis.Transport: Kind.REDIS,
    kombu.transport.redis.SentinelTransport: Kind.REDIS,
    kombu.transport.pyamqp.Transport: Kind.RABBITMQ,
    kombu.transport.pyamqp.SSLTransport: Kind.RABBITMQ,
}

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
