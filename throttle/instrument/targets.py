"""What psycopg's instrument accepts: connections, pools, classes."""

from __future__ import annotations

from typing import Any

import psycopg

from throttle.errors import Misconfigured
from throttle.instrument.connections import (
    KINDS,
    count,
    counted_connection,
    leave,
)
from throttle.instrument.cursors import counted_cursor, plain
from throttle.meter import Tally

CURSORS = (psycopg.Cursor, psycopg.AsyncCursor)


def install(target: Any, tally: Tally, *, timing: bool) -> Any:
    """Return the target, or the class that counts in its place."""
    if target is None:
        target = psycopg.Connection
    kind: Any = target
    if isinstance(target, type):
        if issubclass(target, KINDS):
            return counted_connection(kind, tally, timing=timing)
        if issubclass(target, CURSORS):
            return counted_cursor(kind, tally, timing=timing)
    elif isinstance(target, KINDS):
        count(target, tally, timing=timing)
        return target
    elif is_pool(target):
        kind = target.connection_class
        target.connection_class = counted_connection(kind, tally, timing=timing)
        for connection in idle(target):
            count(connection, tally, timing=timing)
        return target
    message = (
        f"instrument.psycopg({target!r}): allowed are a connection or a pool of psycopg"
        " 3, or a class of its connections or cursors"
    )
    raise Misconfigured(message)


def uninstall(target: Any) -> None:
    """Stop the counting of a connection or pool."""
    if isinstance(target, KINDS):
        leave(target)
    elif is_pool(target):
        target.connection_class = plain(target.connection_class)
        for connection in idle(target):
            leave(connection)
    else:
        message = f"instrument.uninstall({target!r}): nothing was installed there"
        raise Misconfigured(message)


def is_pool(target: Any) -> bool:
    """Return whether it is a pool of psycopg_pool, which need not be installed."""
    kind = getattr(target, "connection_class", None)
    return isinstance(kind, type) and issubclass(kind, KINDS)


def idle(pool: Any) -> list[Any]:
    """Return the connections that a pool has in store; those lent count when new."""
    return list(getattr(pool, "_pool", ()))
