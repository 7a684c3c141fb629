"""Connections of psycopg 3, the one that blocks and the one that is awaited."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from celery_pecker.adapters.adapter import (
    Flow,
    Rows,
    Statement,
    raise_refusal,
)
from celery_pecker.kernel.errors import NoTransaction, NotRecorded, TransactionAborted

T = TypeVar("T")


def adapter(connection: Any) -> PsycopgAdapter | None:
    """Return an adapter if it is a connection of psycopg that blocks."""
    if isinstance(connection, psycopg.Connection):
        return PsycopgAdapter(connection)
    return None


def async_adapter(connection: Any) -> AsyncPsycopgAdapter | None:
    """Return an adapter if it is a connection of psycopg that is awaited."""
    if isinstance(connection, psycopg.AsyncConnection):
        return AsyncPsycopgAdapter(connection)
    return None


def require(connection: psycopg.BaseConnection[Any]) -> None:
    """Refuse a connection without a transaction that can be joined."""
    if connection.closed:
        message = "connection is closed: a transaction needs an open one"
        raise NotRecorded(message)
    status = connection.info.transaction_status
    if status == TransactionStatus.INERROR:
        message = (
            "connection has a transaction in which a statement failed before: it can"
            " only be rolled back"
        )
        raise TransactionAborted(message)
    if status == TransactionStatus.IDLE and connection.autocommit:
        message = (
            "connection is in autocommit and has no transaction open: open one with"
            " `with connection.transaction()`, or leave out connection=…"
        )
        raise NoTransaction(message)


def _place(connection: psycopg.BaseConnection[Any]) -> object:
    info = connection.info
    return info.host, info.port, info.dbname, info.user


class PsycopgAdapter:
    """A connection that blocks."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    @property
    def database_key(self) -> object:
        """Which database it is."""
        return _place(self._connection)

    def require(self) -> None:
        """Refuse a connection without a transaction that can be joined."""
        require(self._connection)

    def run(self, statement: Statement) -> Rows:
        """Return the rows of a statement."""
        with self._connection.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(statement.text.encode(), statement.params)
            return cursor.fetchall() if cursor.description else ()


class AsyncPsycopgAdapter:
    """A connection that is awaited."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection

    async def drive(self, flow_in: Callable[[object], Flow[T]]) -> T:
        """Return what the flow for this place returns."""
        require(self._connection)
        flow = flow_in(_place(self._connection))
        try:
            statement = next(flow)
            while True:
                statement = flow.send(await self._run(statement))
        except StopIteration as end:
            result: T = end.value
            return result

    async def _run(self, statement: Statement) -> Rows:
        try:
            async with self._connection.cursor(row_factory=tuple_row) as cursor:
                await cursor.execute(statement.text.encode(), statement.params)
                return await cursor.fetchall() if cursor.description else ()
        except psycopg.Error as error:
            raise_refusal(error)
            raise
