"""The outbox of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import psycopg

from benchmarks.outbox import relaying
from benchmarks.outbox.field import build
from benchmarks.peers.environment import given
from celery_pecker.kernel.migrations import migrate

TABLE = "pecker_outbox"


def install() -> None:
    """The tables are there."""
    migrate(given("DSN"), schema=given("SCHEMA"))


@contextmanager
def sender() -> Iterator[
    tuple[Callable[[int], object], Callable[[], AbstractContextManager[object]]]
]:
    """Give a call, and a transaction that it joins."""
    app, outbox, task = build(
        given("BROKER"), given("DSN"), given("SCHEMA"), given("QUEUE")
    )
    with psycopg.connect(given("DSN"), autocommit=True) as connection:

        def call(number: int) -> object:
            return outbox.send(task.s(number), connection=connection)

        yield call, connection.transaction
    outbox.close()
    app.close()


def consume() -> None:
    """Deliver."""
    relaying.main()
