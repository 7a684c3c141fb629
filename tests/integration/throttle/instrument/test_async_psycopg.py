"""What of asynchronous psycopg counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool

from throttle import instrument

SLOW = "select pg_sleep(0.05)"


@asynccontextmanager
async def connected(
    dsn: str, count: Any, *, timing: bool = True
) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """Give a connection that counts."""
    kind = instrument.psycopg(psycopg.AsyncConnection, timing=timing, meter=count.meter)
    async with await kind.connect(dsn, autocommit=True) as connection:
        yield connection


def test_each_way_to_ask_counts(empty_dsn: str, count: Any) -> None:
    """As the synchronous client does."""

    async def ask() -> None:
        async with connected(empty_dsn, count) as connection:
            await connection.execute("create table t (a int)")
            await connection.execute("insert into t select generate_series(1, 10)")
            assert count() == (2, 10)
            cursor = connection.cursor()
            await cursor.executemany("insert into t values (%s)", [(1,), (2,)])
            assert count() == (2, 2)
            with pytest.raises(psycopg.errors.DivisionByZero):
                await cursor.execute("select 1 / 0")
            assert count() == (1, 0)
            async with cursor.copy("copy t from stdin") as copy:
                await copy.write_row((7,))
            assert count() == (1, 1)
            async with connection.transaction(), connection.cursor("held") as held:
                await held.execute("select * from t")
                assert len([row async for row in held]) == 13
            assert count() == (3, 13)
            async with connection.pipeline():
                await connection.execute(SLOW)
                await connection.execute("select 1")
            assert count()[0] == 2
            assert count.seconds > 0.05
            assert len([row async for row in cursor.stream("select 1")]) == 1
            assert count() == (1, 1)

    asyncio.run(ask())


def test_without_timing_only_operations_count(empty_dsn: str, count: Any) -> None:
    """The statement is awaited as ever."""

    async def ask() -> None:
        async with connected(empty_dsn, count, timing=False) as connection:
            cursor = await connection.execute("select 7")
            assert await cursor.fetchone() == (7,)
            assert count() == (1, 0)

    asyncio.run(ask())


def test_statements_side_by_side_count_with_all_their_seconds(
    empty_dsn: str, count: Any
) -> None:
    """Two of a second side by side are two seconds; one that is cancelled counts."""

    async def ask() -> None:
        async with (
            connected(empty_dsn, count) as first,
            connected(empty_dsn, count) as second,
        ):
            await asyncio.gather(first.execute(SLOW), second.execute(SLOW))
            assert count() == (2, 2)
            assert count.seconds > 0.1
            task = asyncio.create_task(first.execute("select pg_sleep(30)"))
            await second.execute("select 1")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert count() == (2, 1)

    asyncio.run(ask())


def test_a_connection_that_is_there_counts_until_it_is_let_go(
    empty_dsn: str, count: Any
) -> None:
    """Its class is as it was."""

    async def ask() -> None:
        async with await psycopg.AsyncConnection.connect(empty_dsn) as connection:
            instrument.psycopg(connection, meter=count.meter)
            await connection.execute("select 1")
            assert count() == (1, 1)
            instrument.uninstall(connection)
            await connection.execute("select 1")
            assert count() == (0, 0)
            assert type(connection) is psycopg.AsyncConnection

    asyncio.run(ask())


def test_a_pool_counts_with_what_it_has_and_will_have(
    empty_dsn: str, count: Any
) -> None:
    """And stops for both."""

    async def ask() -> None:
        async with AsyncConnectionPool(
            empty_dsn, min_size=1, max_size=2, kwargs={"autocommit": True}, open=False
        ) as pool:
            await pool.wait()
            assert instrument.psycopg(pool, meter=count.meter) is pool
            async with pool.connection() as there, pool.connection() as made:
                await there.execute("select 1")
                await made.execute("select 1")
            done = count()
            assert done[1] == 2
            assert done[0] >= 2
            instrument.uninstall(pool)
            async with pool.connection() as there:
                await there.execute("select 1")
            assert count() == (0, 0)

    asyncio.run(ask())
