"""A connection to Redis by URL, for which nothing takes longer than it may.

`failures` sorts what Redis can raise: away, or never going to work.
"""

import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from redis import Redis
from redis import exceptions as redis_errors
from redis.backoff import NoBackoff
from redis.exceptions import InvalidResponse, RedisError
from redis.retry import Retry
from redis.sentinel import Sentinel

from throttle.errors import Misconfigured, StoreUnavailable

FOREIGN = "has something of another program under our keys: set throttle_prefix"
ALL = (
    redis_errors.RedisError,
    OSError,
    # What the client's parser and our own reading raise on the answers of a server
    # that is no Redis
    ValueError,
    TypeError,
    IndexError,
    OverflowError,
    MemoryError,
    RecursionError,
)
"""All that a call of the client may raise."""
NO_REDIS = "answers, but not as a Redis does"
RIGHTS = (
    "does not let this user do what is needed: EVAL, EVALSHA and what the scripts"
    " call, on the keys of throttle_prefix"
)
REPLICA = (
    "is a read-only replica: name the primary, or sentinels that know it"
    " (sentinel://…?master_name=…)"
)
ANSWERS = (
    redis_errors.ResponseError,
    redis_errors.AuthenticationError,
    redis_errors.AuthorizationError,
)
HEALS = (
    "OOM",
    "OutOfMemory",
    "LOADING",
    "BUSY",
    "TryAgain",
    "ClusterDown",
    "MasterDown",
    "AskError",
)
"""Answers of a Redis that will recover by itself, or by its operator."""
STAYS: Mapping[str, str] = {
    "WRONGPASS": "does not take the user name and the password",
    "invalid password": "does not take the user name and the password",
    "invalid username-password": "does not take the user name and the password",
    "NOAUTH": "asks for a password",
    "Authentication required": "asks for a password",
    "without any password": "wants no password",
    "NoPermission": RIGHTS,
    "NOPERM": RIGHTS,
    "no permissions": RIGHTS,
    "user executing the script can't": RIGHTS,
    "ReadOnly": REPLICA,
    "READONLY": REPLICA,
    "read only replica": REPLICA,
    "WRONGTYPE": FOREIGN,
    "user_script": FOREIGN,
}
"""Answers that will stay so, and what is the matter: the first that is in the text.

By their text, for what a script is refused comes as an error of the script.
"""


def away(place: str, error: BaseException) -> StoreUnavailable:
    """Return the message for the time in which policies hold."""
    return StoreUnavailable(f"Redis at {place} is away: {_line(error)}")


def final(place: str, error: BaseException) -> Misconfigured | StoreUnavailable:
    """Return the message at start: an answer that will stay so names its setting."""
    why = _stays(error)
    if why is None:
        return away(place, error)
    return Misconfigured(f"throttle_redis_url: {place} {why} ({_line(error)})")


def _stays(error: BaseException) -> str | None:
    text = f"{type(error).__name__} {error}"
    if isinstance(error, ANSWERS):
        if any(word in text for word in HEALS):
            return None
        known = (why for word, why in STAYS.items() if word in text)
        return next(known, "refuses what is needed")
    if isinstance(error, redis_errors.InvalidResponse):
        return NO_REDIS
    if isinstance(error, (redis_errors.RedisError, OSError)):
        return None
    return NO_REDIS


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


PORT, SENTINEL_PORT = 6379, 26379


def connect(url: str, timeout: float) -> Redis:
    """Return a client that waits so long for a connection, and as long for an answer.

    Nothing is connected yet. Raises Misconfigured if the URL makes no sense.
    """
    try:
        if urlsplit(url).scheme == "sentinel":
            client = _master(url, timeout)
        else:
            client = Redis.from_url(url, **_options(timeout))
        # Options that there are not are seen now, not when it connects
        client.connection_pool.make_connection()
    except (ValueError, TypeError, RedisError) as error:
        # The standard library quotes what it takes for a port: part of a password.
        text = "its port is no number" if "Port" in str(error) else str(error)
        raise Misconfigured(
            f"throttle_redis_url is no address of a Redis: {text}"
        ) from None
    return client


def other_node(client: Redis, host: str, port: int) -> Redis:
    """Return a client for another node of the same cluster."""
    options = dict(client.connection_pool.connection_kwargs)
    options.update(host=host, port=port)
    pool = type(client.connection_pool)(
        connection_class=client.connection_pool.connection_class, **options
    )
    return Redis(connection_pool=pool)


def says_otherwise(url: str, timeout: float) -> InvalidResponse | None:
    """Return what a server says that is no Redis; None if it may be one.

    A web server closes a connection on what it does not understand, before all of it
    was read, and what it says about it is lost: so it is asked once more, in one short
    line.
    """
    parts = urlsplit(url)
    if parts.scheme != "redis":
        return None
    place = (parts.hostname or "localhost", parts.port or PORT)
    try:
        with socket.create_connection(place, timeout) as wire:
            wire.settimeout(timeout)
            wire.sendall(b"PING\r\n")
            reply = wire.recv(100)
    except OSError:
        return None
    return InvalidResponse(repr(reply)) if reply and reply[:1] not in b"+-" else None


def _options(timeout: float) -> dict[str, Any]:
    return {
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        # The caller retries a tick later, with what was counted since
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
    }


def _master(url: str, timeout: float) -> Redis:
    """Read ``sentinel://user:password@one:26379,two:26379/0?master_name=mymaster``."""
    parts = urlsplit(url)
    login, _, hosts = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    asked = parse_qs(parts.query)
    names = asked.get("master_name", [])
    if len(names) != 1 or not hosts:
        raise ValueError("a sentinel:// URL needs hosts and ?master_name=…")
    sentinel: Any = Sentinel(  # type: ignore[no-untyped-call]  # redis-py's own
        [_place(host) for host in hosts.split(",")],
        sentinel_kwargs={
            **_options(timeout),
            "username": _first(asked, "sentinel_username"),
            "password": _first(asked, "sentinel_password"),
        },
    )
    client: Redis = sentinel.master_for(
        names[0],
        username=unquote(user) or None,
        password=unquote(password) or None,
        db=int(parts.path.strip("/") or 0),
        **_options(timeout),
    )
    return client


def _place(host: str) -> tuple[str, int]:
    parts = urlsplit(f"//{host}")
    if not parts.hostname:
        raise ValueError(f"{host!r} is no host of a sentinel")
    return parts.hostname, parts.port or SENTINEL_PORT


def _first(asked: dict[str, list[str]], key: str) -> str | None:
    return asked.get(key, [None])[0]
