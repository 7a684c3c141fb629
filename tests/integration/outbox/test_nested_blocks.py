"""Blocks inside of blocks: the inner one ends, and the one around it is in force."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import ExitStack, suppress
from contextvars import copy_context
from typing import Any

import psycopg
import pytest

from celery_pecker.kernel.errors import NotRecorded
from celery_pecker.outbox import Outbox
from tests.integration.outbox.conftest import Desk, make_app

Connection = psycopg.Connection[Any]


@pytest.fixture
def two(desk: Desk) -> Iterator[tuple[Connection, Connection]]:
    """Give two connections; what they recorded is seen once they commit."""
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(psycopg.connect(desk.dsn)) for _ in range(2)
        )
        yield first, second


def test_the_outer_block_is_in_force_after_the_inner_one(
    desk: Desk, two: tuple[Connection, Connection]
) -> None:
    """Each joins its own transaction, also where the inner one ends by an error."""
    note = desk.task(outbox=True)
    outer, inner = two
    with desk.outbox.using(outer):
        kept = [note.delay(1)]
        with desk.outbox.using(inner):
            note.delay(2)
        kept.append(note.delay(3))
        with suppress(KeyError), desk.outbox.using(inner):
            note.delay(4)
            raise KeyError
        kept.append(desk.outbox.send(note.s(5)))
    inner.rollback()
    assert desk.ids() == []
    outer.commit()
    assert desk.ids() == [one.id for one in kept]


def test_a_block_that_is_entered_inside_of_itself_ends_twice(
    desk: Desk, two: tuple[Connection, Connection]
) -> None:
    """A function that opens it may call another that does so, too."""
    note = desk.task(outbox=True)
    block = desk.outbox.using(two[0])
    with block:
        with block:
            kept = [note.delay(1)]
        kept.append(note.delay(2))
    committed = note.delay(3)
    assert desk.ids() == [committed.id]
    two[0].commit()
    assert sorted(desk.ids()) == sorted(one.id for one in (*kept, committed))


def test_a_block_of_another_outbox_leaves_this_one_in_force(
    desk: Desk, two: tuple[Connection, Connection]
) -> None:
    """What this outbox is asked for by name joins its own block around it."""
    outer, inner = two
    other_app = make_app(desk.dsn)
    others = [Outbox(desk.app, name="eu"), Outbox(other_app)]
    for other in others:
        with desk.outbox.using(outer), other.using(inner):
            desk.outbox.send(desk.task().s(1))
            desk.outbox.send_many(desk.task(), [(2,), (3,)])
    with desk.outbox.using(outer), others[1].using(inner):
        desk.task("plain", outbox=True).delay(4)  # of this app
    inner.commit()
    assert desk.ids() == []
    outer.rollback()
    assert desk.ids() == []
    for other in others:
        other.close()


def test_awaited_blocks_nest_in_each_other_and_in_plain_ones(
    desk: Desk, two: tuple[Connection, Connection]
) -> None:
    """One of the same connection is written before what follows on it."""
    asyncio.run(_awaited(desk, two[0]))


async def _awaited(desk: Desk, plain: Connection) -> None:
    note = desk.task(outbox=True)
    async with (
        await psycopg.AsyncConnection.connect(desk.dsn) as outer,
        await psycopg.AsyncConnection.connect(desk.dsn) as inner,
    ):
        block = desk.outbox.using(outer)
        with desk.outbox.using(plain):
            async with block:
                first = note.delay(1)
                async with block:
                    early = note.delay(2)
                async with desk.outbox.using(inner):
                    note.delay(3)
                await inner.rollback()
                last = await desk.outbox.asend(note.s(4))
            after = note.delay(5)
        await outer.commit()
    assert desk.ids() == [first.id, early.id, last.id]
    plain.commit()
    assert sorted(desk.ids()) == sorted(x.id for x in (early, first, last, after))


def test_one_block_for_many_threads_and_tasks_is_in_force_in_each(desk: Desk) -> None:
    """Whoever leaves it first leaves the others in it."""
    note = desk.task(outbox=True)
    with psycopg.connect(desk.dsn) as connection:
        block = desk.outbox.using(connection)
        inside, left = threading.Barrier(2, timeout=60), threading.Event()

        def enter(*, waits: bool) -> None:
            with block:
                inside.wait()
                if waits:
                    left.wait(60)
                    note.delay()
            left.set()

        threads = [
            threading.Thread(target=enter, kwargs={"waits": waits})
            for waits in (False, True)
        ]
        for one in threads:
            one.start()
        for one in threads:
            one.join(60)
        connection.execute("select 1")  # in the transaction
        asyncio.run(_tasks(note, block))
        assert desk.ids() == []
    assert len(desk.ids()) == 2


async def _tasks(note: Any, block: Any) -> None:
    left = asyncio.Event()

    async def first(inside: asyncio.Event) -> None:
        with block:
            await inside.wait()
        left.set()

    async def second(inside: asyncio.Event) -> None:
        with block:
            inside.set()
            await left.wait()
            note.delay()

    inside = asyncio.Event()
    await asyncio.gather(first(inside), second(inside))


def test_a_block_that_ends_before_the_one_inside_of_it_ends_itself(
    desk: Desk, two: tuple[Connection, Connection]
) -> None:
    """A generator's: it ends while who iterates over it is in a block."""
    note = desk.task(outbox=True)
    outer, inner = two

    def rows() -> Generator[Any, None, None]:
        with desk.outbox.using(outer):
            yield note.delay(1)

    generator = rows()
    kept = next(generator)
    with desk.outbox.using(inner):
        note.delay(2)
        generator.close()
        note.delay(3)
    after = note.delay(4)
    inner.rollback()
    outer.commit()
    assert sorted(desk.ids()) == sorted([kept.id, after.id])


def test_an_awaited_block_that_ends_first_writes_what_is_its_own(
    desk: Desk, two: tuple[Connection, Connection]
) -> None:
    """Into its own transaction; around a plain block, too."""
    asyncio.run(_crossed(desk, two[0]))


async def _crossed(desk: Desk, plain: Connection) -> None:
    note = desk.task(outbox=True)

    async def rows(connection: Any) -> AsyncIterator[Any]:
        async with desk.outbox.using(connection):
            yield note.delay(1)

    async with (
        await psycopg.AsyncConnection.connect(desk.dsn) as outer,
        await psycopg.AsyncConnection.connect(desk.dsn) as inner,
    ):
        generator = rows(outer)
        kept = [await anext(generator)]
        async with desk.outbox.using(inner):
            note.delay(2)
            assert await anext(generator, None) is None
            note.delay(3)
        await inner.rollback()
        generator = rows(outer)
        kept.append(await anext(generator))
        with desk.outbox.using(plain):
            note.delay(4)
            assert await anext(generator, None) is None
            note.delay(5)
        plain.rollback()
        await outer.commit()
    assert desk.ids() == [one.id for one in kept]


def test_a_block_that_ends_in_another_context_is_refused(
    desk: Desk, two: tuple[Connection, Connection]
) -> None:
    """Whatever is in force there goes on."""
    note = desk.task(outbox=True)
    empty = copy_context()
    block = desk.outbox.using(two[0])
    with block, pytest.raises(NotRecorded, match="in another context"):
        empty.run(block.__exit__, None, None, None)
    with desk.outbox.using(two[1]):
        with pytest.raises(NotRecorded, match="in another context"):
            block.__exit__(None, None, None)
        kept = note.delay()
    two[1].commit()
    assert desk.ids() == [kept.id]
