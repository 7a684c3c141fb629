"""Tables of another scheduler, read whole, in one transaction that writes nothing.

PostgreSQL is read by psycopg and SQLite by Python itself; any other database by
SQLAlchemy and its driver, where they are installed.
"""

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import psycopg
from psycopg.rows import dict_row
from psycopg.sql import SQL, Identifier

from celery_pecker.kernel.errors import DatabaseUnavailable, Misconfigured

Row = dict[str, Any]
Read = Callable[[str], list[Row]]
POSTGRES = {"postgresql", "postgres"}
PASSWORD = re.compile(
    r"(?<=:)(?!//)[^:/@]*(?=@)|(?<=password=)('(?:[^'\\]|\\.)*'|[^&\s]*)"
)
CONNECT = 2.0
"""Seconds to connect, at least."""


READING = "the database to read from"


class NoSuchTable(Misconfigured):
    """The database has no such table."""


@contextmanager
def opened(url: str, schemas: Sequence[str | None], timeout: float) -> Iterator[Read]:
    """Yield a function that reads a table of the first schema that has it.

    Raises Misconfigured for a URL that is none, DatabaseUnavailable if there is no
    answer. A schema that is None is the one that the database itself looks into.
    """
    kind, _, driver = url.partition("://")[0].partition("+")
    if "=" in kind:  # pecker_dsn as host=… dbname=…
        way = _postgres(url, schemas, timeout)
    elif kind in POSTGRES:
        way = _postgres(f"postgresql{url[url.index(':') :]}", schemas, timeout)
    elif kind == "sqlite" and not driver:
        way = _sqlite(url)
    elif "://" in url and find_spec("sqlalchemy"):
        way = _alchemy(url, schemas)
    else:
        raise Misconfigured(
            f"the database is {_shown(url)!r}; allowed is a URL postgresql://… or sqlite:///…,"
            " or host=… dbname=…; with SQLAlchemy installed, any URL that it knows"
        )
    with way as read:
        yield read


@contextmanager
def _answering(away: Any, wrong: Any, where: str) -> Iterator[None]:
    """Raise what a driver raises as no answer, or as a mistake."""
    try:
        yield
    except away as error:
        raise DatabaseUnavailable(
            f"no answer from the database to read from: {_line(error)}"
        ) from error
    except wrong as error:
        raise Misconfigured(f"{where}: {_line(error)}") from error


@contextmanager
def _postgres(
    url: str, schemas: Sequence[str | None], timeout: float
) -> Iterator[Read]:
    away, wrong = psycopg.OperationalError, psycopg.Error
    with _answering(away, wrong, f"the database is {_shown(url)!r}"):
        connection = psycopg.connect(
            url, connect_timeout=int(max(CONNECT, timeout)), row_factory=dict_row
        )

    def read(table: str) -> list[Row]:
        places = [[one for one in (schema, table) if one] for schema in schemas]
        for parts in places:
            name = Identifier(*parts)
            there = "select to_regclass(%s) as it"
            cursor = connection.execute(there, [name.as_string(connection)])
            if cursor.fetchone() != {"it": None}:
                whole = SQL("select * from {}").format(name)
                return connection.execute(whole).fetchall()
        raise _absent([".".join(parts) for parts in places])

    # All tables as they were at one instant
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    with connection, _answering(away, wrong, READING):
        yield read


@contextmanager
def _sqlite(url: str) -> Iterator[Read]:
    path = Path(unquote(urlsplit(url).path.removeprefix("/")))
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error as error:
        raise Misconfigured(
            f"the database is {_shown(url)!r}; {path} cannot be opened: {error}"
        ) from error

    def read(table: str) -> list[Row]:
        try:
            # The table is one of the constants in `rows`.
            cursor = connection.execute(f'select * from "{table}"')  # noqa: S608
        except sqlite3.Error as error:
            if "no such table" in str(error):
                raise _absent([table]) from error
            raise Misconfigured(
                f"the database is {_shown(url)!r}; {path} cannot be read: {error}"
            ) from error
        return [dict(row) for row in cursor]

    with closing(connection):
        connection.row_factory = sqlite3.Row
        yield read


@contextmanager
def _alchemy(url: str, schemas: Sequence[str | None]) -> Iterator[Read]:
    sqlalchemy: Any = import_module("sqlalchemy")
    errors: Any = import_module("sqlalchemy.exc")
    wrong = (errors.SQLAlchemyError, ImportError)
    with _answering((), wrong, f"the database is {_shown(url)!r}"):
        engine = sqlalchemy.create_engine(url)

    def read(table: str) -> list[Row]:
        for schema in schemas:
            data = sqlalchemy.MetaData()
            try:
                whole = sqlalchemy.Table(table, data, schema=schema, autoload_with=line)
            except errors.NoSuchTableError:
                continue
            rows = line.execute(sqlalchemy.select(whole)).mappings()
            return [dict(row) for row in rows]
        raise _absent([table])

    reading = _answering(errors.OperationalError, errors.SQLAlchemyError, READING)
    try:
        with reading, engine.connect() as line:
            yield read
    finally:
        engine.dispose()


def _shown(url: str) -> str:
    """Return a text without the passwords of its URLs."""
    return PASSWORD.sub("**", url)


def _absent(places: Sequence[str]) -> NoSuchTable:
    return NoSuchTable(f"the database has no table {' and no table '.join(places)}")


def _line(error: BaseException) -> str:
    """Return an error in one line; psycopg repeats the whole URL in some."""
    return _shown(" ".join(str(error).split()))
