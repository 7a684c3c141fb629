"""Connections and sessions of SQLAlchemy 2, over psycopg, psycopg2 and asyncpg."""

import re
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from celery_pecker.kernel.adapters.adapter import Flow, Rows, Statement, Taken, drive
from celery_pecker.kernel.errors import NoTransaction, NotRecorded, TransactionAborted

T = TypeVar("T")

IN_ERROR = 3
"""What libpq calls a transaction in which a statement failed, in both psycopgs."""
_NAMED = re.compile(r"%\((\w+)\)s")


def adapter(connection: Any) -> "SQLAlchemyAdapter | None":
    """Return an adapter if it is a connection or session that blocks."""
    orm = sys.modules.get("sqlalchemy.orm")
    engine = sys.modules.get("sqlalchemy.engine")
    if orm is not None:
        if isinstance(connection, orm.scoped_session):
            return SQLAlchemyAdapter(connection())
        if isinstance(connection, orm.Session):
            return SQLAlchemyAdapter(connection)
    if engine is not None and isinstance(connection, engine.Connection):
        return SQLAlchemyAdapter(connection)
    return None


def async_adapter(connection: Any) -> "AsyncSQLAlchemyAdapter | None":
    """Return an adapter if it is a connection or session that is awaited."""
    module = sys.modules.get("sqlalchemy.ext.asyncio")
    if module is None:
        return None
    if isinstance(connection, module.async_scoped_session):
        return AsyncSQLAlchemyAdapter(connection())
    if isinstance(connection, (module.AsyncSession, module.AsyncConnection)):
        return AsyncSQLAlchemyAdapter(connection)
    return None


class _Known:
    """What connections and sessions have in common, awaited or not."""

    def __init__(self, bound: Any) -> None:
        self._bound = bound

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return bool(self._bound.in_transaction())


class SQLAlchemyAdapter(_Known):
    """A connection or a session; a session that did nothing yet begins with this."""

    @property
    def database_key(self) -> object:
        """Which database it is."""
        return str(self._connection.engine.url)

    @property
    def _connection(self) -> Any:
        takes = hasattr(self._bound, "exec_driver_sql")
        return self._bound if takes else self._bound.connection()

    def require(self) -> None:
        """Refuse what has no transaction that can be joined."""
        _refuse_ended(self._bound)
        connection = self._connection
        if connection.dialect.name != "postgresql":
            raise NotRecorded(
                f"connection is to {connection.dialect.name}; allowed is PostgreSQL,"
                " where the tables of celery-pecker are"
            )
        driver = connection.connection.dbapi_connection
        if getattr(driver, "autocommit", False):
            raise NoTransaction(
                "connection has the isolation level AUTOCOMMIT and no transaction that"
                " could be joined; take it away, or leave out connection=…"
            )
        info = getattr(connection.connection.driver_connection, "info", None)
        if getattr(info, "transaction_status", None) == IN_ERROR:
            raise TransactionAborted(
                "connection has a transaction in which a statement failed before: it"
                " can only be rolled back"
            )

    def run(self, statement: Statement) -> Rows:
        """Return the rows of a statement, in the driver's own way of parameters."""
        connection = self._connection
        if connection.dialect.paramstyle == "pyformat":
            result = connection.exec_driver_sql(statement.text, dict(statement.params))
        else:
            numbered, names = _numbered(statement.text)
            values = tuple(statement.params[name] for name in names)
            result = connection.exec_driver_sql(numbered, values)
        return [tuple(row) for row in result] if result.returns_rows else ()


class AsyncSQLAlchemyAdapter(_Known):
    """The same, awaited: SQLAlchemy runs what blocks beside its event loop."""

    async def drive(self, flow_in: Callable[[object], Flow[T]]) -> T:
        """Return what the flow for this place returns."""

        def work(bound: Any) -> T:
            return drive(SQLAlchemyAdapter(bound), flow_in)

        result: T = await self._bound.run_sync(work)
        return result

    def innermost(self) -> object:
        """Return the transaction or savepoint; as with a statement, one is begun."""
        blocking = self._blocking
        _refuse_ended(blocking)
        return _innermost(blocking) or blocking.begin()

    def follow(self, taken: Taken) -> Callable[[], None]:
        """Write what was kept by SQLAlchemy's events, in which a statement may run."""
        blocking = self._blocking

        def write(within: object) -> None:
            flow_in = taken(within)
            if flow_in is not None:
                drive(SQLAlchemyAdapter(blocking), flow_in)

        listeners: dict[str, Callable[..., object]] = {
            "commit": lambda *_: write(None),
            "release_savepoint": lambda *_: write(_innermost(blocking)),
            "rollback": lambda *_: taken(None),
            "rollback_savepoint": lambda *_: taken(_innermost(blocking)),
        }
        if hasattr(self._bound, "sync_session"):
            listeners = {
                "before_commit": lambda _: write(_innermost(blocking)),
                "after_soft_rollback": lambda _, ended: taken(ended),
            }
        event = sys.modules["sqlalchemy"].event
        for name, listener in listeners.items():
            event.listen(blocking, name, listener)

        def end() -> None:
            for name, listener in listeners.items():
                event.remove(blocking, name, listener)

        return end

    @property
    def _blocking(self) -> Any:
        """The session or connection that it stands for."""
        session = getattr(self._bound, "sync_session", None)
        return self._bound.sync_connection if session is None else session


def _innermost(blocking: Any) -> Any:
    return blocking.get_nested_transaction() or blocking.get_transaction()


def _refuse_ended(bound: Any) -> None:
    if getattr(bound, "closed", False):
        raise NotRecorded("connection is closed: a transaction needs an open one")
    goes_on = bound if hasattr(bound, "is_active") else _innermost(bound)
    if bound.in_transaction() and not getattr(goes_on, "is_active", True):
        raise TransactionAborted(
            "the transaction of the connection or session failed before: it can"
            " only be rolled back"
        )


@cache
def _numbered(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the statement with $1, $2 … for its parameters, and their names."""
    names: dict[str, int] = {}

    def place(match: re.Match[str]) -> str:
        return f"${names.setdefault(match[1], len(names) + 1)}"

    return _NAMED.sub(place, text), tuple(names)
