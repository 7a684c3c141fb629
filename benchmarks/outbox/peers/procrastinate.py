"""procrastinate: jobs in PostgreSQL that a worker runs, woken by NOTIFY."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import psycopg
import redis.asyncio
from procrastinate import App, PsycopgConnector, SyncPsycopgConnector

from benchmarks.outbox.peers.asked import SEEN
from benchmarks.peers.environment import given

TABLE = "procrastinate_jobs"
CONCURRENCY = 30
CONNECTIONS = 8


def _app(connector: type[PsycopgConnector | SyncPsycopgConnector]) -> App:
    broker = redis.asyncio.Redis.from_url(given("BROKER"))
    app = App(connector=connector(conninfo=given("DSN"), max_size=CONNECTIONS))

    @app.task(name="note")
    async def note(number: int) -> None:
        if number == SEEN:
            await broker.lpush(given("QUEUE"), "seen")

    return app


def install() -> None:
    """The tables are there."""
    with _app(SyncPsycopgConnector).open() as app:
        app.schema_manager.apply_schema()


@contextmanager
def sender() -> Iterator[
    tuple[Callable[[int], object], Callable[[], AbstractContextManager[object]]]
]:
    """Give a call, and a transaction that it joins."""
    with (
        _app(SyncPsycopgConnector).open() as app,
        psycopg.connect(given("DSN"), autocommit=True) as connection,
    ):
        deferrer = app.configure_task("note", connection=connection)
        yield lambda number: deferrer.defer(number=number), connection.transaction


def consume() -> None:
    """Run jobs."""
    _app(PsycopgConnector).run_worker(concurrency=CONCURRENCY, delete_jobs="always")
