"""Which brokers are known, and how the Sentinels of one are asked."""

from __future__ import annotations

import enum
from typing import Any

import kombu.transport.pyamqp
import kombu.transport.redis
from redis.backoff import NoBackoff
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
