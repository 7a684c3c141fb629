"""What of SQLAlchemy counts, on psycopg and on another driver."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import (
    Column,
    Integer,
    MetaData,
    Table,
    create_engine,
    event,
    text,
)
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import StaticPool

from throttle import instrument
from throttle.errors import Misconfigured

THINGS = Table(
    "t",
    MetaData(),
    Column("id", Integer, primary_key=True),
    *(Column(name, Integer) for name in "abc"),
)


OLD = sqlalchemy.__version__.startswith("1.")
without_psycopg_3 = pytest.mark.skipif(OLD, reason="SQLAlchemy 2 knows psycopg 3")


def url(dsn: str, driver: str = "psycopg") -> str:
    """Return the address as SQLAlchemy writes it."""
    return f"postgresql+{driver}://" + dsn.partition("://")[2]


@pytest.fixture(
    params=[pytest.param("psycopg", marks=without_psycopg_3), "psycopg2", "sqlite"]
)
def engine(request: pytest.FixtureRequest) -> Any:
    """Give an engine that counts, not yet connected, and what its commits count."""
    if request.param == "sqlite":
        made = create_engine("sqlite://", poolclass=StaticPool, future=True)
    else:
        dsn = request.getfixturevalue("empty_dsn")
        made = create_engine(url(dsn, request.param), future=True)
    yield made
    made.dispose()


def prepared(engine: Engine, count: Any) -> Engine:
    """Return it with a table, after what a first connection asks."""
    instrument.sqlalchemy(engine, meter=count.meter)
    with engine.begin() as connection:
        THINGS.create(connection)
    count()
    return engine


def test_statements_commits_and_failures_count(engine: Engine, count: Any) -> None:
    """The same on each driver."""
    prepared(engine, count)
    with engine.begin() as connection:
        connection.execute(THINGS.insert(), [{"a": 1}, {"a": 2}, {"a": 3}])
        connection.execute(THINGS.update().values(a=7))
    operations, rows = count()
    assert operations in {5, 3}  # sent one by one, or as one statement; update; commit
    assert rows == 6
    assert count.seconds > 0
    with pytest.raises(DBAPIError), engine.connect() as connection:
        connection.execute(text("select nonsense from t"))
    assert count() == (2, 0)  # rolled back


@pytest.mark.skipif(OLD, reason="SQLAlchemy 2 returns rows of many")
def test_rows_that_are_inserted_and_returned_count_by_statement(
    engine: Engine, count: Any
) -> None:
    """SQLAlchemy calls them many and hands over the values of one, or of a batch."""
    prepared(engine, count)
    asked: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *given: asked.append(given[2]))
    wanted = THINGS.insert().returning(THINGS.c.a, sort_by_parameter_order=True)
    with engine.begin() as connection:
        connection.execute(wanted, [{"a": 1, "b": 2, "c": 3}] * 5)
    assert count()[0] == len(asked) + 1  # the commit
    assert asked


def test_an_engine_counts_once_and_until_it_is_let_go(
    engine: Engine, count: Any
) -> None:
    """Another database replaces the first; connections in the pool follow."""
    prepared(engine, count)
    instrument.sqlalchemy(engine, "other", meter=count.meter)
    instrument.sqlalchemy(engine, "other", meter=count.meter)
    with engine.connect() as connection:
        connection.execute(text("select 1"))
    assert count("other")[0] == 2
    instrument.uninstall(engine)
    instrument.uninstall(engine)
    with engine.connect() as connection:
        connection.execute(text("select 1"))
    assert count() == (0, 0)
    instrument.sqlalchemy(engine, meter=count.meter)
    with engine.connect() as connection:
        connection.execute(text("select 1"))
    assert count()[0] == 2


def test_without_timing_only_operations_count(engine: Engine, count: Any) -> None:
    """On each driver."""
    prepared(engine, count)
    instrument.sqlalchemy(engine, timing=False, meter=count.meter)
    with engine.begin() as connection:
        connection.execute(text("select 1"))
    assert count() == (2, 0)
    assert count.seconds == 0


@without_psycopg_3
def test_raw_cursors_of_an_engine_on_psycopg_count(empty_dsn: str, count: Any) -> None:
    """They pass no event of SQLAlchemy."""
    engine = prepared(create_engine(url(empty_dsn)), count)
    raw = engine.raw_connection()
    raw.cursor().execute("select generate_series(1, 3)")
    assert count() == (1, 3)
    raw.close()
    engine.dispose()


@without_psycopg_3
def test_an_asynchronous_engine_counts(empty_dsn: str, count: Any) -> None:
    """On psycopg's asynchronous connections."""

    async def ask() -> None:
        engine = create_async_engine(url(empty_dsn))
        assert instrument.sqlalchemy(engine, meter=count.meter) is engine
        async with engine.begin() as connection:
            await connection.execute(text("select 1"))
        count()
        async with engine.begin() as connection:
            await connection.execute(text("select generate_series(1, 4)"))
        assert count() == (2, 4)
        await engine.dispose()

    asyncio.run(ask())


def test_what_is_no_engine_is_refused(count: Any) -> None:
    """The error says what is allowed."""
    with pytest.raises(Misconfigured, match="allowed is an engine"):
        instrument.sqlalchemy("postgresql://", meter=count.meter)
