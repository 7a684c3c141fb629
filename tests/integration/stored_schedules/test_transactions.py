"""Edits in the caller's own transaction: they commit together, or not at all."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import psycopg
import pytest

from celery_pecker.kernel.errors import NoTransaction, NotRecorded, SchemaOutdated
from celery_pecker.schedules import InvalidField, VersionConflict
from celery_pecker.testing import eventually
from tests.integration.outbox.doors import ASYNC_DOORS, DOORS, Door, Undo
from tests.integration.stored_schedules.conftest import Desk

sync = pytest.mark.parametrize("kind", DOORS)
awaited = pytest.mark.parametrize("kind", ASYNC_DOORS)
TABLES = (
    "pecker_schedules",
    "pecker_tasks",
    "pecker_declarations",
    "pecker_schedule_changes",
    "pecker_pending",
)


def counts(desk: Desk) -> list[int]:
    """Return how many rows each table has that an edit writes to."""
    return [desk.sql(f"select count(*) from {one}")[0][0] for one in TABLES]  # noqa: S608


@sync
def test_a_commit_has_the_customer_and_the_schedule(kind: str, desk: Desk) -> None:
    """Nobody sees one without the other."""
    desk.sql("create table customers (id int)")
    with DOORS[kind](desk.dsn) as door:
        door.execute("insert into customers values (1)")
        row = desk.set(connection=door.connection, start="2026-01-01 00:00")
        assert desk.schedules.get("report", connection=door.connection) == row
        assert desk.schedules.get("report") is None
        door.commit()
    assert desk.schedules.get("report") == row
    assert desk.sql("select * from customers") == [(1,)]


@sync
def test_a_rollback_leaves_nothing(kind: str, desk: Desk) -> None:
    """Not of set, change, pause or removal."""
    row = desk.set("there")
    before = counts(desk)
    with DOORS[kind](desk.dsn) as door:
        desk.set("new", connection=door.connection)
        desk.set("there", kwargs={"n": 1}, connection=door.connection)
        desk.schedules.pause("there", connection=door.connection)
        desk.schedules.remove("there", connection=door.connection)
        door.rollback()
    assert counts(desk) == before
    assert desk.schedules.get("there") == row
    assert desk.hot("there")[2:] == (False, 1)


@sync
def test_what_a_savepoint_takes_back_is_not_stored(kind: str, desk: Desk) -> None:
    """The rest of the transaction is."""
    with DOORS[kind](desk.dsn) as door:
        desk.set("first", connection=door.connection)
        with suppress(Undo), door.savepoint():
            desk.set("second", connection=door.connection)
            raise Undo
        desk.set("third", connection=door.connection)
        door.commit()
    assert [row.name for row in desk.schedules.list()] == ["first", "third"]


@awaited
def test_awaited_edits_join_their_transaction(kind: str, desk: Desk) -> None:
    """Each of them, by commit and by rollback."""
    schedules = desk.schedules

    async def edit(door: Door) -> None:
        joined = {"connection": door.connection}
        await schedules.aset("a", task="proj.a", schedule=60, version=0, **joined)
        await schedules.aset("b", task="proj.b", schedule=60, by="ann", **joined)
        await schedules.apause("b", **joined)
        await schedules.aonce("proj.c", at="2999-01-01 00:00", name="c", **joined)
        assert await schedules.aremove("a", version=1, **joined)
        found = await schedules.aget("b", **joined)
        assert found is not None
        assert found.paused
        rows = await schedules.alist(search="PROJ.", **joined)
        assert [row.name for row in rows] == ["b", "c"]
        changes = await schedules.ahistory("b", **joined)
        assert [one.change for one in changes] == ["paused", "created"]

    async def run() -> None:
        async with ASYNC_DOORS[kind](desk.dsn) as door:
            await edit(door)
            await door.rollback()
        assert counts(desk) == [0] * len(TABLES)
        async with ASYNC_DOORS[kind](desk.dsn) as door:
            await edit(door)
            await door.commit()

    asyncio.run(run())
    assert [row.name for row in schedules.list()] == ["b", "c"]
    assert desk.hot("b")[2]


def test_awaited_edits_without_a_connection_commit_at_once(desk: Desk) -> None:
    """Over a connection of ours, off the event loop's thread."""

    async def run() -> None:
        await desk.schedules.aset("a", task="proj.a", schedule=60)
        assert await desk.schedules.apause("a")
        assert await desk.schedules.aresume("a")

    asyncio.run(run())
    assert desk.hot("a")[2:] == (False, 1)


def test_a_refusal_leaves_the_transaction_as_it_was(desk: Desk) -> None:
    """The caller may go on and commit."""
    desk.set("there")
    desk.sql(
        "insert into pecker_declarations (name, task, schedule, delivery,"
        " declared_until) values ('code', 't', 's', 'd', 'infinity')"
    )
    before = counts(desk)
    with psycopg.connect(desk.dsn) as connection:
        with pytest.raises(VersionConflict):
            desk.set("new", version=1, connection=connection)
        with pytest.raises(VersionConflict):
            desk.set("there", version=0, connection=connection)
        with pytest.raises(InvalidField):
            desk.set("code", connection=connection)
        with pytest.raises(InvalidField):
            desk.set("late", schedule=60, end="2026-01-01", connection=connection)
        connection.commit()
    assert counts(desk) == before


def test_an_edit_that_fails_in_its_middle_leaves_nothing(desk: Desk) -> None:
    """Over a connection of ours too: a new entry has a row before it is written."""
    desk.sql("alter table pecker_schedule_changes rename to away")
    with pytest.raises(SchemaOutdated):
        desk.set()
    assert not desk.sql("select 1 from pecker_tasks")


def test_a_connection_in_autocommit_is_refused(desk: Desk) -> None:
    """Half of an edit would be there if the process died in its middle."""
    with psycopg.connect(desk.dsn, autocommit=True) as connection:
        with pytest.raises(NoTransaction, match="autocommit"):
            desk.set(connection=connection)
        with connection.transaction():
            desk.set(connection=connection)
    assert desk.schedules.get("report") is not None


def test_a_connection_of_the_wrong_kind_is_refused(desk: Desk) -> None:
    """What is awaited by set, what blocks by aset, what is none by both."""
    with pytest.raises(NotRecorded, match=r"connection is builtins\.str; allowed are"):
        desk.set(connection="postgresql://")
    with psycopg.connect(desk.dsn) as connection:
        call = desk.schedules.aset("a", task="t", schedule=60, connection=connection)
        with pytest.raises(NotRecorded, match=r"which blocks: call .*set"):
            asyncio.run(call)


def test_an_edit_waits_for_the_transaction_before_it(desk: Desk) -> None:
    """It builds on what that one committed: no version comes twice."""
    desk.set()
    versions: list[int] = []
    with psycopg.connect(desk.dsn) as connection:
        desk.set(kwargs={"n": 1}, connection=connection)
        second = threading.Thread(
            target=lambda: versions.append(desk.set(kwargs={"n": 2}).version)
        )
        second.start()
        waiting = (
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
            " and datname = current_database()"
        )
        eventually(lambda: desk.sql(waiting)[0][0], 60.0, "the second edit waits")
        connection.commit()
    second.join()
    assert versions == [3]


def test_a_claim_passes_over_an_entry_that_is_edited(desk: Desk) -> None:
    """It waits for nobody: the row of an open edit is locked, the others are not."""
    desk.set("held")
    desk.set("free")
    with psycopg.connect(desk.dsn) as connection:
        desk.set("held", kwargs={"n": 1}, connection=connection)
        rows = desk.sql(
            "select name from pecker_tasks order by name for update skip locked"
        )
        assert rows == [("free",)]
        connection.rollback()
