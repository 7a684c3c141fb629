"""Awaited blocks around commits, savepoints and rollbacks: as those that block."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, ExitStack, suppress
from typing import Any

import psycopg
import pytest
from django.db import transaction
from sqlalchemy import create_engine, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from celery_pecker.kernel.errors import (
    NoTransaction,
    NotRecorded,
    TransactionAborted,
)
from tests.integration.outbox.conftest import Desk
from tests.integration.outbox.doors import (
    ALIAS,
    ASYNC_DOORS,
    DOORS,
    Door,
    Undo,
    django_connection,
    url,
)

Story = Callable[[Door], Coroutine[Any, Any, None]]

awaited = pytest.mark.parametrize("kind", ASYNC_DOORS)
sync = pytest.mark.parametrize("kind", DOORS)
drivers = pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])

OVER = "transaction of this block of the outbox has ended"


def play(kind: str, desk: Desk, story: Story) -> None:
    """Run a story with a door of this kind, and begin its transaction."""

    async def run() -> None:
        async with ASYNC_DOORS[kind](desk.dsn) as door:
            await story(door)

    asyncio.run(run())


@awaited
def test_a_commit_inside_of_the_block_records_what_was_sent_before(
    kind: str, desk: Desk
) -> None:
    """In the transaction that it commits; and the block may go on in the next."""
    note = desk.task()
    sent: list[Any] = []

    async def story(door: Door) -> None:
        async with desk.outbox.using(door.connection):
            sent.append(note.delay(1))
            await door.execute("select 1")
            sent.append(note.delay(2))
            await door.commit()
            assert desk.ids() == [one.id for one in sent]
            await door.execute("select 1")
            sent.append(note.delay(3))
        assert len(desk.ids()) == 2
        await door.commit()

    play(kind, desk, story)
    assert desk.ids() == [one.id for one in sent]


@awaited
def test_a_rollback_inside_of_the_block_takes_back_what_was_sent_before(
    kind: str, desk: Desk
) -> None:
    """What is sent after it belongs to the next transaction."""
    note = desk.task()
    sent: list[Any] = []

    async def story(door: Door) -> None:
        async with desk.outbox.using(door.connection):
            note.delay(1)
            await door.execute("select 1")
            note.delay(2)
            await door.rollback()
            await door.execute("select 1")
            sent.append(note.delay(3))
        await door.commit()

    play(kind, desk, story)
    assert desk.ids() == [one.id for one in sent]


@awaited
def test_savepoints_inside_of_the_block_hold(kind: str, desk: Desk) -> None:
    """One in another too: what is rolled back is not sent, all else is, once."""
    note = desk.task()
    sent: list[Any] = []

    async def story(door: Door) -> None:
        async with desk.outbox.using(door.connection):
            sent.append(note.delay("before"))
            async with door.savepoint():
                sent.append(note.delay("kept"))
                with suppress(Undo):
                    async with door.savepoint():
                        note.delay("undone")
                        await door.execute("select 1")
                        note.delay("undone, too")
                        raise Undo
                sent.append(note.delay("kept, too"))
            with suppress(Undo):
                async with door.savepoint():
                    async with door.savepoint():
                        note.delay("released and undone")
                    raise Undo
            sent.append(note.delay("after"))
        await door.commit()

    play(kind, desk, story)
    assert sorted(desk.ids()) == sorted(one.id for one in sent)


@awaited
def test_a_savepoint_whose_statement_failed_takes_its_messages_along(
    kind: str, desk: Desk
) -> None:
    """Those that were sent before the statement, too."""
    note = desk.task()
    sent: list[Any] = []

    async def story(door: Door) -> None:
        async with desk.outbox.using(door.connection):
            sent.append(note.delay("before"))
            with suppress(Exception):
                async with door.savepoint():
                    note.delay("undone")
                    await door.execute("select 1 / 0")
            sent.append(note.delay("after"))
        await door.commit()

    play(kind, desk, story)
    assert sorted(desk.ids()) == sorted(one.id for one in sent)


@awaited
def test_an_awaited_block_that_outlives_its_transaction_raises(
    kind: str, desk: Desk
) -> None:
    """What it would send might never be committed."""
    note = desk.task()

    async def story(door: Door) -> None:
        for end in (door.commit, door.rollback):
            await door.execute("select 1")
            async with desk.outbox.using(door.connection):
                await end()
                with pytest.raises(NotRecorded, match=OVER):
                    note.delay(1)

    play(kind, desk, story)
    assert desk.ids() == []


@awaited
def test_a_block_that_ends_in_a_savepoint_that_began_in_it(
    kind: str, desk: Desk
) -> None:
    """What was sent before that savepoint is recorded with it, or refused."""
    note = desk.task()
    sent: list[Any] = []

    async def story(door: Door) -> None:
        stack = AsyncExitStack()
        refused = None
        try:
            async with desk.outbox.using(door.connection):
                sent.append(note.delay("before"))
                await stack.enter_async_context(door.savepoint())
        except NotRecorded as error:
            refused = error
        await stack.aclose()
        await door.commit()
        if refused is not None:
            assert "end savepoints inside of the block" in str(refused)
            sent.clear()

    play(kind, desk, story)
    assert desk.ids() == [one.id for one in sent]


@awaited
def test_two_blocks_of_one_connection_write_what_is_theirs_once(
    kind: str, desk: Desk
) -> None:
    """Nested, and one that has ended leaves no trace."""
    note = desk.task()
    sent: list[Any] = []

    async def story(door: Door) -> None:
        async with desk.outbox.using(door.connection):
            sent.append(note.delay("outer"))
            async with desk.outbox.using(door.connection):
                sent.append(note.delay("inner"))
                await door.execute("select 1")
                await door.commit()
            await door.execute("select 1")
            sent.append(note.delay("outer again"))
        await door.commit()
        async with door.savepoint():
            await door.execute("select 1")
        await door.commit()

    play(kind, desk, story)
    assert sorted(desk.ids()) == sorted(one.id for one in sent)


@drivers
def test_a_session_may_begin_inside_of_the_block(driver: str, desk: Desk) -> None:
    """Without a statement of its own, too; and its end is the block's."""
    note = desk.task()
    sent: list[Any] = []

    async def story() -> None:
        engine = create_async_engine(url(desk.dsn, driver))
        using = desk.outbox.using
        async with AsyncSession(engine) as session, using(session):
            async with session.begin():
                await session.execute(text("select 1"))
                sent.append(note.delay(1))
            assert desk.ids() == [sent[0].id]
            async with session.begin():
                sent.append(note.delay(2))
                async with session.begin_nested():
                    sent.append(note.delay(3))
                with suppress(Undo):
                    async with session.begin_nested():
                        note.delay("undone")
                        raise Undo
            with suppress(Undo):
                async with session.begin():
                    note.delay("undone")
                    raise Undo
            with pytest.raises(NotRecorded, match=OVER):
                note.delay("lost")
        async with AsyncSession(engine) as session, session.begin(), using(session):
            sent.append(note.delay(4))
            await session.execute(text("select 1"))
        async with AsyncSession(engine) as session:
            block = using(session)
            await block.__aenter__()
            note.delay("undone")
            await session.close()
            with pytest.raises(NotRecorded, match=OVER):
                await block.__aexit__(None, None, None)
        await engine.dispose()

    asyncio.run(story())
    assert sorted(desk.ids()) == sorted(one.id for one in sent)


def test_a_flush_that_fails_in_a_savepoint_takes_its_messages_along(
    desk: Desk,
) -> None:
    """The session writes them first, and rolls back to the savepoint."""
    note = desk.task()
    kept: list[Any] = []

    async def story() -> None:
        engine = create_async_engine(url(desk.dsn, "asyncpg"))
        async with AsyncSession(engine) as session, desk.outbox.using(session):
            await session.execute(text("create table only_one (id int primary key)"))
            kept.append(note.delay("before"))
            with suppress(IntegrityError):
                async with session.begin_nested():
                    note.delay("undone")
                    await session.execute(text("insert into only_one values (1), (1)"))
            await session.commit()
        await engine.dispose()

    asyncio.run(story())
    assert desk.ids() == [one.id for one in kept]


def test_an_awaited_connection_of_psycopg_is_judged_at_the_call(desk: Desk) -> None:
    """As one that blocks: in autocommit, and after a statement that failed."""
    note = desk.task()
    sent: list[Any] = []

    async def story() -> None:
        connect = psycopg.AsyncConnection.connect
        async with (
            await connect(desk.dsn, autocommit=True) as connection,
            desk.outbox.using(connection),
        ):
            with pytest.raises(NoTransaction):
                note.delay("lost")
            async with connection.transaction():
                sent.append(note.delay(1))
                async with connection.transaction(force_rollback=True):
                    note.delay("undone")
                with suppress(psycopg.Error):
                    async with connection.transaction() as savepoint:
                        await connection.execute("select 1 / 0")
                assert savepoint.status is not None
                sent.append(note.delay(2))
            with pytest.raises(NotRecorded, match=OVER):
                note.delay("lost")
            with suppress(psycopg.Error):
                async with connection.transaction():
                    with suppress(psycopg.Error):
                        await connection.execute("select 1 / 0")
                    with pytest.raises(TransactionAborted):
                        note.delay("lost")
        async with await connect(desk.dsn) as connection:
            async with desk.outbox.using(connection), connection.pipeline():
                await connection.execute("select 1")
                sent.append(note.delay(3))
                await connection.commit()
            async with desk.outbox.using(connection):  # and by its own statements
                await connection.execute("select 1")
                sent.append(note.delay(4))
                await connection.execute("savepoint mine")
                note.delay("undone")
                await connection.execute("rollback to mine")
                await connection.execute("commit")
                with pytest.raises(NotRecorded, match=OVER):
                    note.delay("lost")

    asyncio.run(story())
    assert desk.ids() == [one.id for one in sent]


@sync
def test_a_block_that_outlives_its_transaction_raises(kind: str, desk: Desk) -> None:
    """A commit in it records what was sent before."""
    note = desk.task()
    with DOORS[kind](desk.dsn) as door:
        door.execute("select 1")
        with desk.outbox.using(door.connection):
            kept = note.delay(1)
            door.commit()
            with pytest.raises(NotRecorded):
                note.delay(2)
    assert desk.ids() == [kept.id]


def test_a_block_may_begin_before_its_transaction(desk: Desk) -> None:
    """Of a session, of a connection in autocommit, and of Django."""
    note = desk.task()
    sent = []
    engine = create_engine(url(desk.dsn, "psycopg2"))
    with Session(engine) as session, desk.outbox.using(session):
        with session.begin():
            sent.append(note.delay(1))
        with pytest.raises(NotRecorded, match=OVER):
            note.delay("lost")
    engine.dispose()
    connection = psycopg.connect(desk.dsn, autocommit=True)
    with connection, desk.outbox.using(connection), connection.transaction():
        sent.append(note.delay(2))
    wrapper = django_connection(desk.dsn)
    with desk.outbox.using(wrapper):
        with transaction.atomic(using=ALIAS):
            sent.append(note.delay(3))
            with suppress(Undo), transaction.atomic(using=ALIAS):
                note.delay("undone")
                raise Undo
        with pytest.raises(NotRecorded, match=OVER):
            note.delay("lost")
    wrapper.set_autocommit(False)
    with desk.outbox.using(wrapper):
        sent.append(note.delay(4))
        wrapper.commit()
        with pytest.raises(NotRecorded, match=OVER):
            note.delay("lost")
    wrapper.close()
    stack = ExitStack()
    with DOORS["django"](desk.dsn) as door:
        stack.enter_context(desk.outbox.using(door.connection))
        door.commit()
        with pytest.raises(NotRecorded, match=OVER):
            note.delay("lost")
        stack.close()
    assert desk.ids() == [one.id for one in sent]
