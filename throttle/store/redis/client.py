"""A connection to Redis by URL, for which nothing takes longer than it may."""

from __future__ import annotations

import socket
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import InvalidResponse, RedisError
from redis.retry import Retry
from redis.sentinel import Sentinel

from throttle.errors import Misconfigured

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
        message = f"throttle_redis_url is no address of a Redis: {text}"
        raise Misconfigured(message) from None
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
        message = "a sentinel:// URL needs hosts and ?master_name=…"
        raise ValueError(message)
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
        message = f"{host!r} is no host of a sentinel"
        raise ValueError(message)
    return parts.hostname, parts.port or SENTINEL_PORT


def _first(asked: dict[str, list[str]], key: str) -> str | None:
    return asked.get(key, [None])[0]
