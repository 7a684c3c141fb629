"""pgqueuer: jobs in PostgreSQL that a consumer runs, woken by NOTIFY."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import asyncpg  # type: ignore[import-untyped]  # it has none
import psycopg
import redis.asyncio
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver, SyncPsycopgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries, SyncQueries

from benchmarks.outbox.peers.asked import SEEN, server_settings
from benchmarks.peers.environment import given

TABLE = "pgqueuer"
BATCH = 100
CONNECTIONS = 4


def install() -> None:
    """The tables are there."""

    async def made() -> None:
        connection = await asyncpg.connect(**server_settings())
        await Queries(AsyncpgDriver(connection)).install()
        await connection.close()

    asyncio.run(made())


@contextmanager
def sender() -> Iterator[
    tuple[Callable[[int], object], Callable[[], AbstractContextManager[object]]]
]:
    """Give a call, and a transaction that it joins."""
    with psycopg.connect(given("DSN"), autocommit=True) as connection:
        queries = SyncQueries(SyncPsycopgDriver(connection))

        def call(number: int) -> object:
            return queries.enqueue("note", str(number).encode())

        yield call, connection.transaction


def consume() -> None:
    """Run jobs."""

    async def run() -> None:
        broker = redis.asyncio.Redis.from_url(given("BROKER"))
        pool = await asyncpg.create_pool(
            **server_settings(), min_size=CONNECTIONS, max_size=CONNECTIONS
        )
        consumer = PgQueuer(AsyncpgPoolDriver(pool))

        @consumer.entrypoint("note")
        async def note(job: Job) -> None:
            if job.payload == str(SEEN).encode():
                await broker.lpush(given("QUEUE"), "seen")

        await consumer.run(batch_size=BATCH)

    uvloop.run(run())
