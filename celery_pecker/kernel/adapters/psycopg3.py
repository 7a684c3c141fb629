"""Connections of psycopg 3, the one that blocks and the one that is awaited."""

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any, TypeVar

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import tuple_row

from celery_pecker.kernel.adapters.adapter import (
    Flow,
    Rows,
    Statement,
    Taken,
    raise_refusal,
)
from celery_pecker.kernel.errors import NoTransaction, NotRecorded, TransactionAborted

T = TypeVar("T")


def adapter(connection: Any) -> "PsycopgAdapter | None":
    """Return an adapter if it is a connection of psycopg that blocks."""
    if isinstance(connection, psycopg.Connection):
        return PsycopgAdapter(connection)
    return None


def async_adapter(connection: Any) -> "AsyncPsycopgAdapter | None":
    """Return an adapter if it is a connection of psycopg that is awaited."""
    if isinstance(connection, psycopg.AsyncConnection):
        return AsyncPsycopgAdapter(connection)
    return None


def require(connection: psycopg.BaseConnection[Any]) -> None:
    """Refuse a connection without a transaction that can be joined."""
    if connection.closed:
        raise NotRecorded("connection is closed: a transaction needs an open one")
    status = connection.info.transaction_status
    if status == TransactionStatus.INERROR:
        raise TransactionAborted(
            "connection has a transaction in which a statement failed before: it can"
            " only be rolled back"
        )
    if status == TransactionStatus.IDLE and connection.autocommit:
        raise NoTransaction(
            "connection is in autocommit and has no transaction open: open one with"
            " `with connection.transaction()`, or leave out connection=…"
        )


def _pipelined(connection: psycopg.BaseConnection[Any]) -> bool:
    """Return whether it is in pipeline mode, in which its state is known late."""
    status = None if connection.closed else connection.info.pipeline_status
    return status not in {None, PipelineStatus.OFF}


def _pipeline(connection: Any) -> Any:
    """Return a block that ends with the answers to all that was sent; else nothing.

    In pipeline mode an error of a statement comes with a later one: so those of the
    caller come before ours is sent, and that of ours before its rows are asked for.
    """
    return connection.pipeline() if _pipelined(connection) else nullcontext()


class _Known:
    """What both kinds of connection have in common."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @property
    def database_key(self) -> object:
        """Which database it is."""
        info = self._connection.info
        return info.host, info.port, info.dbname, info.user

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        connection = self._connection
        return _pipelined(connection) or (
            connection.info.transaction_status != TransactionStatus.IDLE
        )


class PsycopgAdapter(_Known):
    """A connection that blocks."""

    def require(self) -> None:
        """Refuse a connection without a transaction that can be joined."""
        with _pipeline(self._connection):
            pass
        require(self._connection)

    def run(self, statement: Statement) -> Rows:
        """Return the rows of a statement."""
        # Whatever kind of cursor is the connection's: a RawCursor has other parameters.
        with psycopg.Cursor(self._connection, row_factory=tuple_row) as cursor:
            with _pipeline(self._connection):
                cursor.execute(statement.text.encode(), statement.params)
            return cursor.fetchall() if cursor.description else ()


class AsyncPsycopgAdapter(_Known):
    """A connection that is awaited."""

    async def drive(self, flow_in: Callable[[object], Flow[T]]) -> T:
        """Return what the flow for this place returns."""
        async with _pipeline(self._connection):
            pass
        require(self._connection)
        flow = flow_in(self.database_key)
        try:
            statement = next(flow)
            while True:
                statement = flow.send(await self._run(statement))
        except StopIteration as end:
            result: T = end.value
            return result

    def innermost(self) -> None:
        """Return None: what is kept is written before a savepoint begins, too."""
        if not _pipelined(self._connection):
            require(self._connection)

    def follow(self, taken: Taken) -> Callable[[], None]:
        """Write what was kept before the next thing that the connection does."""

        async def write() -> None:
            flow_in = taken(None)
            if flow_in is not None:
                await self.drive(flow_in)

        connection: Any = self._connection
        if not isinstance(connection.lock, _WritesFirst):
            connection.lock = _WritesFirst(connection.lock)
        lock: _WritesFirst = connection.lock
        return lock.begin(write)

    async def _run(self, statement: Statement) -> Rows:
        try:
            connection = self._connection
            async with psycopg.AsyncCursor(connection, row_factory=tuple_row) as cursor:
                async with _pipeline(connection):
                    await cursor.execute(statement.text.encode(), statement.params)
                return await cursor.fetchall() if cursor.description else ()
        except psycopg.Error as error:
            raise_refusal(error)
            raise


class _WritesFirst:
    """The lock that all that a connection does takes; first its blocks are written.

    psycopg has no events. Without blocks it is the lock that it was.
    """

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self._blocks: list[Callable[[], Awaitable[None]]] = []

    def begin(self, write: Callable[[], Awaitable[None]]) -> Callable[[], None]:
        """Call a block's function from now on; return what ends that."""
        self._blocks.append(write)
        return lambda: self._blocks.remove(write)

    async def __aenter__(self) -> None:
        for write in [*self._blocks]:
            await write()
        await self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()
