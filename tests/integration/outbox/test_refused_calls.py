"""Bad input fails at the call, and the transaction does not suffer from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from celery import Celery, group
from django.db import transaction
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from celery_pecker.kernel.errors import (
    MessageTooLarge,
    Misconfigured,
    NoTransaction,
    NotRecorded,
    SchemaOutdated,
    TransactionAborted,
)
from celery_pecker.outbox import Outbox
from tests.integration.outbox.conftest import Desk, make_app
from tests.integration.outbox.doors import (
    ALIAS,
    ASYNC_DOORS,
    DOORS,
    django_connection,
    url,
)

sync = pytest.mark.parametrize("kind", DOORS)


@sync
def test_an_aborted_transaction_is_refused(kind: str, desk: Desk) -> None:
    """A statement failed before: nothing can be written in it any more."""
    with DOORS[kind](desk.dsn) as door:
        with suppress(Exception):
            door.execute("select 1 / 0")
        with pytest.raises(TransactionAborted, match="rolled back"):
            desk.outbox.send(desk.task().s(1), connection=door.connection)
        door.rollback()
    assert desk.rows() == []


@pytest.mark.parametrize("kind", ASYNC_DOORS)
def test_an_aborted_transaction_is_refused_awaited(kind: str, desk: Desk) -> None:
    """As one that blocks; asyncpg says so only when it is asked."""

    async def story() -> None:
        async with ASYNC_DOORS[kind](desk.dsn) as door:
            with suppress(Exception):
                await door.execute("select 1 / 0")
            with pytest.raises(TransactionAborted, match="rolled back"):
                await desk.outbox.asend(desk.task().s(1), connection=door.connection)
            await door.rollback()

    asyncio.run(story())
    assert desk.rows() == []


@pytest.mark.parametrize("kind", ["psycopg", "sqlalchemy", "django"])
def test_a_connection_without_a_transaction_is_refused(kind: str, desk: Desk) -> None:
    """In autocommit the row would be there before the data, or without it."""
    signature = desk.task().s(1)
    if kind == "psycopg":
        with psycopg.connect(desk.dsn, autocommit=True) as connection:
            with pytest.raises(NoTransaction, match=r"connection\.transaction\(\)"):
                desk.outbox.send(signature, connection=connection)
            with connection.transaction():
                desk.outbox.send(signature, connection=connection)
    elif kind == "sqlalchemy":
        engine = create_engine(url(desk.dsn, "psycopg2"), isolation_level="AUTOCOMMIT")
        with (
            engine.connect() as bound,
            pytest.raises(NoTransaction, match="AUTOCOMMIT"),
        ):
            desk.outbox.send(signature, connection=bound)
        engine.dispose()
    else:
        wrapper = django_connection(desk.dsn)
        with pytest.raises(NoTransaction, match=f"atomic.using='{ALIAS}'"):
            desk.outbox.send(signature, connection=wrapper)
        with pytest.raises(NoTransaction), desk.outbox.using(wrapper):
            desk.task().delay(1)
        wrapper.close()
    assert len(desk.rows()) == (kind == "psycopg")


def test_connections_that_cannot_carry_are_refused_by_their_kind(desk: Desk) -> None:
    """Unknown, closed, an engine, one that must be awaited where nobody awaits."""
    signature = desk.task().s(1)
    engine = create_engine("sqlite://")
    closed = psycopg.connect(desk.dsn)
    closed.close()
    cases: list[tuple[Any, str]] = [
        (object(), "connection is builtins.object; allowed are a Connection or Async"),
        (desk.dsn, "connection is builtins.str; allowed are"),
        (engine, "connection is sqlalchemy.engine.base.Engine; allowed are"),
        (closed, "connection is closed"),
    ]
    for connection, said in cases:
        with pytest.raises(NotRecorded, match=said):
            desk.outbox.send(signature, connection=connection)
    with Session(engine) as session, pytest.raises(NotRecorded, match="is to sqlite"):
        desk.outbox.send(signature, connection=session)

    async def mixed_up() -> None:
        with (
            psycopg.connect(desk.dsn) as connection,
            pytest.raises(NotRecorded, match="which blocks: call send"),
        ):
            await desk.outbox.asend(signature, connection=connection)
        async with ASYNC_DOORS["psycopg"](desk.dsn) as door:
            with pytest.raises(NotRecorded, match="to be awaited: call asend"):
                desk.outbox.send(signature, connection=door.connection)
            with (
                pytest.raises(NotRecorded, match="to be awaited"),
                desk.outbox.using(door.connection),
            ):
                desk.task().delay(1)

    asyncio.run(mixed_up())
    engine.dispose()
    assert desk.rows() == []


def calls(desk: Desk) -> dict[str, tuple[Callable[..., Any], str]]:
    """Return bad calls, each with what its refusal says."""
    note, send = desk.task(), desk.outbox.send

    return {
        "unknown mode": (lambda **on: send(note.s(1), mode="x", **on), "mode is 'x'"),
        "negative delay": (
            lambda **on: send(note.s(1), countdown=-5, **on),
            "countdown is -5; allowed are seconds from 0",
        ),
        "unserializable": (
            lambda **on: send(note.s(object()), **on),
            "argument cannot be serialized: Object of type object is not JSON",
        ),
        "header": (
            lambda **on: send(note.s(1), headers={"x": object()}, **on),
            "headers of the message cannot be kept as JSON",
        ),
        "NUL": (
            lambda **on: send(note.s(1), task_id="a\0", **on),
            "task_id of the message is",
        ),
        "key of several": (
            lambda **on: send(group(note.s(1), note.s(2)), dedupe_key="k", **on),
            "sends 2 messages",
        ),
        "no signature": (lambda **on: send(note, **on), "signature is .*allowed is"),
        "another app": (
            lambda **on: send(Celery("b", set_as_current=False).signature("t"), **on),
            "is of the app",
        ),
    }


BAD = (
    "unknown mode",
    "negative delay",
    "unserializable",
    "header",
    "NUL",
    "key of several",
    "no signature",
    "another app",
)


def test_bad_calls_leave_the_transaction_as_it_was(desk: Desk) -> None:
    """What is written before and after them is committed."""
    with psycopg.connect(desk.dsn) as connection:
        first = desk.outbox.send(desk.task().s(1), connection=connection)
        for name in BAD:
            call, said = calls(desk)[name]
            with pytest.raises(NotRecorded, match=said):
                call(connection=connection)
            with pytest.raises(NotRecorded, match=said):
                call()
        last = desk.outbox.send(desk.task().s(2), connection=connection)
    assert desk.ids() == [first.id, last.id]


def test_a_message_over_the_limit_is_refused(dsn: str) -> None:
    """With its size, the setting and what it allows."""
    app = make_app(dsn, pecker_outbox_message_bytes=2_000)
    desk = Desk(dsn, app, Outbox(app))
    with psycopg.connect(dsn) as connection:
        with pytest.raises(MessageTooLarge, match="message_bytes allows 2000"):
            desk.outbox.send(desk.task().s("x" * 2_000), connection=connection)
        desk.outbox.send(desk.task().s("x"), connection=connection)
    assert len(desk.rows()) == 1


@sync
def test_a_table_that_is_not_migrated_is_refused(kind: str, empty_dsn: str) -> None:
    """And the transaction goes on: nothing failed in it."""
    app = make_app(empty_dsn)
    desk = Desk(empty_dsn, app, Outbox(app))
    with DOORS[kind](empty_dsn) as door:
        door.execute("create table orders (id int)")
        with pytest.raises(SchemaOutdated, match=r"'public' .*pecker migrate"):
            desk.outbox.send(desk.task().s(1), connection=door.connection)
        door.commit()
    with psycopg.connect(empty_dsn) as connection:
        connection.execute("select * from orders")
    with pytest.raises(SchemaOutdated, match="pecker migrate"):
        desk.outbox.send(desk.task().s(1))


def test_a_role_without_rights_is_refused_by_what_it_lacks(desk: Desk) -> None:
    """Before PostgreSQL fails a statement of its transaction."""
    role = desk.dsn.rpartition("/")[2]
    with psycopg.connect(desk.dsn) as connection:
        connection.execute(f"create role {role}".encode())
        connection.execute(f"grant usage on schema public to {role}".encode())
        connection.execute(f"set role {role}".encode())
        with pytest.raises(Misconfigured, match="select, insert and update"):
            desk.outbox.send(desk.task().s(1), connection=connection)
        connection.execute("select 1")
        connection.rollback()


def test_a_read_only_transaction_is_refused(desk: Desk) -> None:
    """In our words."""
    engine = create_engine(url(desk.dsn, "psycopg"))
    with Session(engine) as session:
        session.execute(text("set transaction read only"))
        with pytest.raises(NotRecorded, match="read-only"):
            desk.outbox.send(desk.task().s(1), connection=session)
    engine.dispose()


def test_a_second_outbox_of_the_same_name_is_refused(desk: Desk) -> None:
    """Which of them would a task go to?"""
    with pytest.raises(Misconfigured, match="'default' already"):
        Outbox(desk.app)
    with pytest.raises(Misconfigured, match="name is ''"):
        Outbox(desk.app, name="")
    with pytest.raises(Misconfigured, match="pecker_dsn"):
        Outbox(desk.app, dsn="postgresql+psycopg://x", name="eu").send(desk.task().s())


def test_an_atomic_block_that_failed_is_refused(desk: Desk) -> None:
    """Django remembers it until the block ends."""
    wrapper = django_connection(desk.dsn)
    with transaction.atomic(using=ALIAS):
        transaction.set_rollback(True, using=ALIAS)
        with pytest.raises(TransactionAborted, match="rolled back"):
            desk.outbox.send(desk.task().s(1), connection=wrapper)
    wrapper.close()
