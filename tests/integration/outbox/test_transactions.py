"""A commit records what was sent, a rollback nothing, and savepoints hold."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

import psycopg
import pytest
from celery import chain, group

from tests.integration.outbox.conftest import Desk
from tests.integration.outbox.doors import ASYNC_DOORS, DOORS, Door, Undo

sync = pytest.mark.parametrize("kind", DOORS)
awaited = pytest.mark.parametrize("kind", ASYNC_DOORS)


@pytest.fixture
def orders(dsn: str) -> str:
    """Give the address of a database that has a table of the caller's."""
    with psycopg.connect(dsn) as connection:
        connection.execute("create table orders (id int)")
    return dsn


@sync
def test_a_commit_records_the_task_with_the_data(
    kind: str, orders: str, desk: Desk
) -> None:
    """Nobody sees the one without the other, and the id is final at the call."""
    with DOORS[kind](orders) as door:
        door.execute("insert into orders values (1)")
        result = desk.outbox.send(desk.task().s(1), connection=door.connection)
        assert desk.rows() == []
        door.commit()
    [row] = desk.rows()
    assert row["task_id"] == result.id
    assert (row["task"], row["mode"], row["due_at"]) == ("note", 0, None)
    with psycopg.connect(orders) as connection:
        assert connection.execute("select * from orders").fetchall() == [(1,)]


@sync
def test_a_rollback_records_nothing(kind: str, orders: str, desk: Desk) -> None:
    """What was sent in it never was."""
    with DOORS[kind](orders) as door:
        desk.outbox.send(desk.task().s(1), connection=door.connection)
        door.rollback()
    assert desk.rows() == []


@sync
def test_what_a_savepoint_takes_back_is_not_sent(
    kind: str, orders: str, desk: Desk
) -> None:
    """The rest of the transaction is."""
    note = desk.task()
    with DOORS[kind](orders) as door:
        first = desk.outbox.send(note.s(1), connection=door.connection)
        with suppress(Undo), door.savepoint():
            desk.outbox.send(note.s(2), connection=door.connection)
            raise Undo
        with door.savepoint():
            last = desk.outbox.send(note.s(3), connection=door.connection)
        door.commit()
    assert desk.ids() == [first.id, last.id]


@sync
def test_in_a_block_all_that_is_sent_joins_the_transaction(
    kind: str, orders: str, desk: Desk
) -> None:
    """Also what Celery's own canvas sends."""
    note = desk.task()
    with DOORS[kind](orders) as door:
        with desk.outbox.using(door.connection):
            tail: Any = chain(note.s(1), note.si(2)).delay()
            grouped: Any = group(note.s(i) for i in range(3)).delay()
            single = desk.app.send_task("somewhere.else", (1,))
        assert desk.rows() == []
        door.commit()
    assert desk.ids() == [
        tail.parent.id,
        *[one.id for one in grouped],
        single.id,
    ]


@sync
def test_many_messages_of_one_call_are_one_write(
    kind: str, orders: str, desk: Desk
) -> None:
    """In their order, with the ids of the group's results."""
    note = desk.task()
    with DOORS[kind](orders) as door:
        result = desk.outbox.send(
            group(note.s(i) for i in range(20)), connection=door.connection
        )
        door.commit()
    assert desk.ids() == [one.id for one in result]


def through(
    kind: str, dsn: str, story: Callable[[Door], Coroutine[Any, Any, None]]
) -> None:
    """Run a story in an event loop, with a door of this kind."""

    async def run(door: AbstractAsyncContextManager[Door]) -> None:
        async with door as opened:
            await story(opened)

    asyncio.run(run(ASYNC_DOORS[kind](dsn)))


@awaited
def test_an_awaited_commit_records_the_task_with_the_data(
    kind: str, orders: str, desk: Desk
) -> None:
    """As one that blocks."""
    results: list[Any] = []

    async def story(door: Door) -> None:
        await door.execute("insert into orders values (1)")
        results.append(
            await desk.outbox.asend(desk.task().s(1), connection=door.connection)
        )
        assert desk.rows() == []
        await door.commit()

    through(kind, orders, story)
    assert desk.ids() == [results[0].id]


@awaited
def test_an_awaited_rollback_records_nothing(
    kind: str, orders: str, desk: Desk
) -> None:
    """Neither of a call nor of a block."""

    async def story(door: Door) -> None:
        await desk.outbox.asend(desk.task().s(1), connection=door.connection)
        async with desk.outbox.using(door.connection):
            desk.task().delay(2)
        await door.rollback()

    through(kind, orders, story)
    assert desk.rows() == []


@awaited
def test_an_awaited_savepoint_takes_back_what_was_sent_in_it(
    kind: str, orders: str, desk: Desk
) -> None:
    """The rest of the transaction is sent."""
    results: list[Any] = []

    async def story(door: Door) -> None:
        send, note = desk.outbox.asend, desk.task()
        results.append(await send(note.s(1), connection=door.connection))
        with suppress(Undo):
            async with door.savepoint():
                await send(note.s(2), connection=door.connection)
                raise Undo
        results.append(await send(note.s(3), connection=door.connection))
        await door.commit()

    through(kind, orders, story)
    assert desk.ids() == [result.id for result in results]


@awaited
def test_an_awaited_block_writes_what_was_sent_at_its_end(
    kind: str, orders: str, desk: Desk
) -> None:
    """An exception that leaves it writes nothing of it."""
    results: list[Any] = []

    async def story(door: Door) -> None:
        note = desk.task()
        async with desk.outbox.using(door.connection):
            grouped: Any = group(note.s(i) for i in range(3)).delay()
            results.extend(grouped)
            results.append(note.delay(4))
        with suppress(Undo):
            async with desk.outbox.using(door.connection):
                note.delay(5)
                raise Undo
        await door.commit()

    through(kind, orders, story)
    assert desk.ids() == [result.id for result in results]
