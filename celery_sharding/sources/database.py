"""A user's database, asked something in bounded time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import IsolationLevel, conninfo
from psycopg.rows import dict_row, tuple_row

from celery_pecker.kernel.bounded_connection import BoundedConnection
from celery_sharding.errors import DatabaseUnavailable, Misconfigured

Ask = Callable[[str, Mapping[str, Any]], Sequence[Any]]


@contextmanager
def opened(
    conf: Mapping[str, Any], setting: str, *, timeout: float, named: bool = False
) -> Iterator[Ask]:
    """Yield a function that queries the database a setting names, read-only.

    Args:
        conf: the app's configuration.
        setting: the setting's name, for errors too: its value may be a secret.
        timeout: seconds that connecting and each question may take.
        named: whether rows are dicts by column; otherwise tuples.

    Raises:
        Misconfigured: there is no such setting, or the server refused a statement.
        DatabaseUnavailable: no answer; another time there may be one.
    """
    try:
        connection = _connected(conf, setting, timeout)
        with connection:
            connection.isolation_level = IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            connection.budget = timeout

            def ask(statement: str, params: Mapping[str, Any]) -> Sequence[Any]:
                factory: Any = dict_row if named else tuple_row
                with connection.cursor(row_factory=factory) as cursor:
                    return cursor.execute(statement, params).fetchall()

            yield ask
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        message = f"the database of {setting} gave no answer: {_text_of(error)}"
        raise DatabaseUnavailable(message) from error
    except psycopg.Error as error:
        message = f"the database of {setting} refused the query: {_text_of(error)}"
        raise Misconfigured(message) from error


def _connected(
    conf: Mapping[str, Any], setting: str, timeout: float
) -> BoundedConnection:
    dsn = conf.get(setting)
    if not isinstance(dsn, str) or not dsn:
        message = f"Query: the app has no setting {setting} that says where rows are"
        raise Misconfigured(message)
    try:
        parameters = conninfo.conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        # libpq's own words quote what it could not read, and that may be a secret.
        message = f"Query: the setting {setting} is no PostgreSQL connection string"
        raise Misconfigured(message) from None
    parameters.setdefault("application_name", "celery_sharding:query")
    return BoundedConnection.within(conninfo.make_conninfo("", **parameters), timeout)


def _text_of(error: psycopg.Error) -> str:
    return " ".join(str(error).split()) or type(error).__name__
