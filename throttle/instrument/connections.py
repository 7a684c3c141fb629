"""psycopg's connections, made to count: those there are, and those to come.

And what its instrument accepts: connections, pools, classes.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, cast

import psycopg
from psycopg.abc import PQGen
from psycopg.pq import Format
from psycopg.sql import Composable

from throttle.errors import Misconfigured
from throttle.instrument.cursors import PLAIN_KIND, Timed, counted_cursor, plain
from throttle.meter import Tally

OWN = (b"COMMIT", b"ROLLBACK", b"PREPARE TRANSACTION", b"FETCH", b"MOVE")
"""Commands of psycopg itself that are work for a database."""
NOT = b"ROLLBACK TO"
"""Of a savepoint, which costs the server next to nothing, as BEGIN does."""
FACTORIES = ("cursor_factory", "server_cursor_factory")
KINDS = (psycopg.Connection, psycopg.AsyncConnection)


@cache
def counted_connection(kind: Any, tally: Tally, *, timing: bool) -> type[Any]:
    """Return a class of connections that count, and otherwise are as `kind`."""
    kind = plain(kind)
    if hasattr(kind, PLAIN_KIND):  # a user's class, made of one that counts
        return cast("type[Any]", kind)
    added: dict[str, Any] = {
        "__module__": kind.__module__,
        PLAIN_KIND: kind,
        "_exec_command": _own_commands(kind, tally, timing=timing),
        "pipeline": _pipeline(kind, tally, timing=timing),
    }
    for name in FACTORIES:
        added[name] = _factory(name, tally, timing=timing)
    return type(f"Counted{kind.__name__}", (kind,), added)


def count(connection: Any, tally: Tally, *, timing: bool) -> None:
    """Count what an open connection does, by the cursors that it makes from now on."""
    factories = {name: getattr(connection, name) for name in FACTORIES}
    plain_kind: Any = type(connection)
    kind = counted_connection(plain_kind, tally, timing=timing)
    connection.__class__ = kind
    for name, factory in factories.items():
        setattr(connection, name, factory)


def leave(connection: Any) -> None:
    """Stop the counting of a connection; cursors that it has made go on."""
    if hasattr(connection, PLAIN_KIND):
        factories = {name: plain(getattr(connection, name)) for name in FACTORIES}
        connection.__class__ = plain(type(connection))
        vars(connection).update(factories)


def _factory(name: str, tally: Tally, *, timing: bool) -> property:
    """Return a property: whatever factory is set, it makes cursors that count."""

    def of(self: Any) -> Any:
        return vars(self)[name]

    def to(self: Any, factory: Any) -> None:
        if not isinstance(factory, type):
            raise Misconfigured(
                f"{name} must be a class of cursors to be counted, not {factory!r}"
            )
        vars(self)[name] = counted_cursor(factory, tally, timing=timing)

    return property(of, to)


def _own_commands(
    kind: type[Any], tally: Tally, *, timing: bool
) -> Callable[..., PQGen[Any]]:
    method = kind._exec_command  # noqa: SLF001 — all of psycopg's own commands call it

    def _exec_command(
        self: Any, command: Any, result_format: Format = Format.TEXT
    ) -> PQGen[Any]:
        if isinstance(command, Composable):
            command = command.as_bytes(self)
        text = command.encode() if isinstance(command, str) else command
        if not text.startswith(OWN) or text.startswith(NOT):
            return (yield from method(self, command, result_format))
        with Timed(tally, timing=timing) as timed:
            result = yield from method(self, command, result_format)
            timed.rows = result.ntuples if result is not None else 0
        return result

    return _exec_command


# In a pipeline a statement is sent at once, and waited for at the next fetch or the
# end: what is timed is each wait. A cursor's own wait is timed by itself.


def _waited(generator: PQGen[Any], tally: Tally) -> PQGen[Any]:
    with Timed(tally, operations=0):
        return (yield from generator)


class TimedPipeline:
    """A pipeline, synchronous or not, of a connection whose waits are timed in it."""

    def __init__(self, inner: Any, connection: Any, tally: Tally) -> None:
        self._inner = inner
        self._connection = connection
        self._tally = tally

    def _begin(self) -> None:
        plain_wait, tally = self._connection.wait, self._tally

        def wait(generator: PQGen[Any], *args: Any, **kwargs: Any) -> Any:
            timed = generator if tally.running else _waited(generator, tally)
            return plain_wait(timed, *args, **kwargs)

        self._connection.wait = wait

    def __enter__(self) -> Any:
        entered = self._inner.__enter__()
        self._begin()
        return entered

    def __exit__(self, *error: object) -> Any:
        try:
            return self._inner.__exit__(*error)
        finally:
            del self._connection.wait

    async def __aenter__(self) -> Any:
        entered = await self._inner.__aenter__()
        self._begin()
        return entered

    async def __aexit__(self, *error: object) -> Any:
        try:
            return await self._inner.__aexit__(*error)
        finally:
            del self._connection.wait


def _pipeline(kind: type[Any], tally: Tally, *, timing: bool) -> Callable[..., Any]:
    def pipeline(self: Any) -> Any:
        inner = kind.pipeline(self)
        timed = timing and "wait" not in vars(self)
        return TimedPipeline(inner, self, tally) if timed else inner

    return pipeline


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
    raise Misconfigured(
        f"instrument.psycopg({target!r}): allowed are a connection or a pool of psycopg"
        " 3, or a class of its connections or cursors"
    )


def uninstall(target: Any) -> None:
    """Stop the counting of a connection or pool."""
    if isinstance(target, KINDS):
        leave(target)
    elif is_pool(target):
        target.connection_class = plain(target.connection_class)
        for connection in idle(target):
            leave(connection)
    else:
        raise Misconfigured(
            f"instrument.uninstall({target!r}): nothing was installed there"
        )


def is_pool(target: Any) -> bool:
    """Return whether it is a pool of psycopg_pool, which need not be installed."""
    kind = getattr(target, "connection_class", None)
    return isinstance(kind, type) and issubclass(kind, KINDS)


def idle(pool: Any) -> list[Any]:
    """Return the connections that a pool has in store; those lent count when new."""
    return list(getattr(pool, "_pool", ()))
