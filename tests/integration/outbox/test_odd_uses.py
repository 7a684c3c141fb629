"""What callers do with an outbox that nobody thought of."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from contextvars import copy_context
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from celery import chain, chord, group
from celery.signals import before_task_publish
from django.db import transaction
from psycopg.rows import dict_row
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.kernel.errors import NoTransaction, NotRecorded
from celery_pecker.outbox import Outbox
from tests.integration.outbox.conftest import Desk, make_app
from tests.integration.outbox.doors import (
    ALIAS,
    DOORS,
    Undo,
    django_connection,
    url,
)


def test_who_outlives_a_block_cannot_send_into_it(desk: Desk) -> None:
    """A context that was copied inside of it: its transaction may be over."""
    note = desk.task(outbox=True)
    with psycopg.connect(desk.dsn) as connection, desk.outbox.using(connection):
        inside = copy_context()
        kept = inside.run(note.delay)
    with pytest.raises(NotRecorded, match=r"block .* has ended"):
        inside.run(note.delay)
    with desk.outbox.transaction():
        own = copy_context()
    with pytest.raises(NotRecorded, match=r"block .* has ended"):
        own.run(note.delay)
    assert desk.ids() == [kept.id]


def test_a_task_that_outlives_an_awaited_block_cannot_send_into_it(desk: Desk) -> None:
    """What was sent while the block was written would be lost without a word."""
    asyncio.run(_outliving(desk))


async def _outliving(desk: Desk) -> None:
    note = desk.task(outbox=True)
    over = asyncio.Event()

    async def later() -> None:
        await over.wait()
        note.delay()

    async with (
        await psycopg.AsyncConnection.connect(desk.dsn) as connection,
        desk.outbox.using(connection),
    ):
        kept = note.delay()
        left = asyncio.create_task(later())
    over.set()
    with pytest.raises(NotRecorded, match=r"block .* has ended"):
        await left
    assert desk.ids() == [kept.id]


def test_blocks_of_many_tasks_at_once_are_each_their_own(desk: Desk) -> None:
    """Every second one is rolled back."""
    asyncio.run(_many_tasks(desk))


async def _many_tasks(desk: Desk) -> None:
    note = desk.task(outbox=True)
    engine = create_async_engine(url(desk.dsn, "asyncpg"))

    async def order(number: int) -> str | None:
        async with AsyncSession(engine) as session:
            async with desk.outbox.using(session):
                result = note.delay(number)
                await session.execute(text("select 1"))
            await (session.rollback() if number % 2 else session.commit())
        return None if number % 2 else str(result.id)

    kept = await asyncio.gather(*map(order, range(20)))
    await engine.dispose()
    assert sorted(desk.ids()) == sorted(filter(None, kept))


def test_blocks_of_many_threads_at_once_are_each_their_own(desk: Desk) -> None:
    """Each has a session; every second one is rolled back."""
    note = desk.task(outbox=True)
    engine = create_engine(url(desk.dsn, "psycopg2"))
    kept: list[str] = []

    def order(number: int) -> None:
        with Session(engine) as session, desk.outbox.using(session):
            result = note.delay(number)
            if number % 2:
                session.rollback()
            else:
                session.commit()
                kept.append(result.id)

    threads = [threading.Thread(target=order, args=(one,)) for one in range(12)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    engine.dispose()
    assert sorted(desk.ids()) == sorted(kept)
    assert len(kept) == 6


def test_nested_atomic_blocks_take_back_what_is_theirs(desk: Desk) -> None:
    """A chord in a chain in a savepoint that is rolled back is not sent."""
    desk.app.conf.update(result_backend="cache+memory://")
    note = desk.task()
    connection = django_connection(desk.dsn)
    canvas = chain(chord([note.si(1), note.si(2)], note.si(3)), note.si(4))
    with transaction.atomic(using=ALIAS):
        first = desk.outbox.send(note.s(0), connection=connection)
        with transaction.atomic(using=ALIAS):
            with suppress(Undo), transaction.atomic(using=ALIAS):
                desk.outbox.send(canvas, connection=connection)
                raise Undo
            second = desk.outbox.send(note.s(5), connection=connection)
    connection.close()
    assert desk.ids() == [first.id, second.id]


def test_a_plain_call_joins_a_transaction_of_django_without_autocommit(
    dsn: str,
) -> None:
    """Whose commit and rollback are the caller's."""
    app = make_app(dsn)
    outbox = Outbox(app, alias=ALIAS)
    desk = Desk(dsn, app, outbox)
    note = desk.task(outbox=True)
    connection = django_connection(dsn)
    connection.set_autocommit(False)
    note.delay()
    connection.rollback()
    assert desk.ids() == []
    kept = note.delay()
    assert desk.ids() == []
    connection.commit()
    assert desk.ids() == [kept.id]
    connection.close()
    outbox.close()


def test_a_commit_that_fails_sends_nothing(desk: Desk) -> None:
    """A constraint that is looked at only then."""
    note = desk.task()
    with psycopg.connect(desk.dsn) as connection:
        connection.execute(
            "create table taken (id int unique deferrable initially deferred)"
        )
    engine = create_engine(url(desk.dsn, "psycopg"))
    with Session(engine) as session:
        session.execute(text("insert into taken values (1), (1)"))
        desk.outbox.send(note.s(), connection=session)
        with pytest.raises(Exception, match="duplicate key"):
            session.commit()
    engine.dispose()
    assert desk.ids() == []


def test_rows_of_another_form_and_cursors_of_the_client_do_no_harm(desk: Desk) -> None:
    """What a connection makes of rows is its owner's affair."""
    note = desk.task()
    sent = []
    factories: list[dict[str, Any]] = [
        {"row_factory": dict_row},
        {"cursor_factory": psycopg.ClientCursor},
        {"cursor_factory": psycopg.RawCursor},
        {"prepare_threshold": 0},
    ]
    for options in factories:
        with psycopg.connect(desk.dsn, **options) as connection:
            sent.append(desk.outbox.send(note.s("%s %(x)s"), connection=connection))
            kept = desk.outbox.send(note.s(), connection=connection, dedupe_key="one")
        sent.append(kept)
    with psycopg.connect(desk.dsn) as connection, connection.pipeline():
        connection.execute("select 1")
        sent.append(desk.outbox.send(note.s(), connection=connection))
    assert desk.ids() == [*dict.fromkeys(one.id for one in sent)]
    assert len(desk.ids()) == 6


def test_in_pipeline_mode_it_is_as_without(desk: Desk) -> None:
    """Also the first thing in it, a key, and a rollback; and awaited."""
    note = desk.task()
    sent = []
    with psycopg.connect(desk.dsn, autocommit=True) as connection:
        with connection.pipeline(), connection.transaction():
            sent.append(desk.outbox.send(note.s(), connection=connection))
            rows = [(number,) for number in range(3)]
            sent += desk.outbox.send_many(note, rows, connection=connection)
            for _ in range(2):
                key: Any = {"connection": connection, "dedupe_key": "one"}
                sent.append(desk.outbox.send(note.s(), **key))
        with suppress(Undo), connection.pipeline(), connection.transaction():
            desk.outbox.send(note.s(), connection=connection)
            raise Undo
        with connection.pipeline():
            connection.execute("select 1")  # a transaction of its own, not yet ended
            with pytest.raises(NoTransaction):
                desk.outbox.send(note.s(), connection=connection)

    async def awaited() -> None:
        async with (
            await psycopg.AsyncConnection.connect(
                desk.dsn, cursor_factory=psycopg.AsyncRawCursor
            ) as connection,
            connection.pipeline(),
        ):
            sent.append(await desk.outbox.asend(note.s(), connection=connection))
            await connection.commit()
            await connection.set_autocommit(True)
            await connection.execute("select 1")
            with pytest.raises(NoTransaction):
                await desk.outbox.asend(note.s(), connection=connection)

    asyncio.run(awaited())
    assert sent[4].id == sent[5].id
    assert desk.ids() == [*dict.fromkeys(one.id for one in sent)]


def test_a_table_that_the_caller_misses_is_not_a_missing_migration(desk: Desk) -> None:
    """Neither of a pipeline's statement before ours, nor of a trigger on our table."""
    note = desk.task()
    with psycopg.connect(desk.dsn) as connection, connection.pipeline():
        connection.execute("insert into nowhere values (1)")
        with pytest.raises(psycopg.errors.UndefinedTable, match="nowhere"):
            desk.outbox.send(note.s(), connection=connection)
        connection.rollback()
    with psycopg.connect(desk.dsn) as connection:
        connection.execute(
            "create function audit() returns trigger language plpgsql as"
            " $$begin insert into nowhere values (1); return new; end$$"
        )
        connection.execute(
            "create trigger audit after insert on pecker_outbox"
            " execute function audit()"
        )
    for kind in ("psycopg", "sqlalchemy-session-psycopg2", "django"):
        with (
            DOORS[kind](desk.dsn) as door,
            pytest.raises(Exception, match='relation "nowhere" does not exist'),
        ):
            desk.outbox.send(note.s(), connection=door.connection)
    assert desk.ids() == []


def test_a_key_in_the_header_of_a_chord_is_refused(desk: Desk) -> None:
    """A header whose message is another one's would leave its chord open for ever."""
    desk.app.conf.update(result_backend="cache+memory://")
    note = desk.task()
    canvas = chord(
        [note.s(1).set(dedupe_key="one"), note.s(2).set(dedupe_key="two")], note.s()
    )
    with psycopg.connect(desk.dsn) as connection:
        with (
            desk.outbox.using(connection),
            pytest.raises(NotRecorded, match=r"dedupe_key 'one' .* chord"),
        ):
            canvas.delay()
        connection.commit()
    assert desk.ids() == []


def test_a_group_with_one_key_for_all_is_refused(desk: Desk) -> None:
    """One would be recorded, and the others be taken for it."""
    note = desk.task()
    with psycopg.connect(desk.dsn) as connection, desk.outbox.using(connection):
        with pytest.raises(NotRecorded, match="dedupe_key 'one'"):
            group(note.s(1), note.s(2)).apply_async(dedupe_key="one")
        connection.rollback()
    assert desk.ids() == []


def test_a_clock_of_the_caller_that_is_wrong_defers_by_what_was_meant(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both the eta and now are of the caller's clock; the wait is the database's."""
    note = desk.task()
    wrong = SYSTEM.now() - timedelta(minutes=5)
    monkeypatch.setattr("celery_pecker.outbox.hook.SYSTEM", _Fixed(wrong))
    with psycopg.connect(desk.dsn) as connection:
        eta = wrong + timedelta(seconds=60)
        desk.outbox.send(note.s(), connection=connection, eta=eta)
    [row] = desk.rows()
    assert row["due_at"] - row["created_at"] == timedelta(seconds=60)


class _Fixed:
    """A clock that stands still."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def now(self) -> datetime:
        """Return its time."""
        return self._now


def test_a_signal_that_sends_another_task_records_both(desk: Desk) -> None:
    """A handler of before_task_publish is the caller's code, too."""
    note, other = desk.task(), desk.task("other", outbox=True)

    def handler(sender: Any = None, **_: object) -> None:
        if sender == note.name:
            other.delay()

    before_task_publish.connect(handler)
    try:
        with psycopg.connect(desk.dsn) as connection:
            result = desk.outbox.send(note.s(), connection=connection)
    finally:
        before_task_publish.disconnect(handler)
    rows = [(row["task"], row["task_id"]) for row in desk.rows()]
    assert [task for task, _ in rows] == ["other", "note"]
    assert rows[1][1] == result.id
