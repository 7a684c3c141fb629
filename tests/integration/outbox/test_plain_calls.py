"""Plain delay() and apply_async() of tasks with outbox=, and what is sent as ever."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from celery import group
from celery.app.trace import build_tracer
from celery.exceptions import OperationalError
from django.db import transaction
from psycopg import sql

from celery_pecker import deadline
from celery_pecker.kernel.connections import MAX_IDLE
from celery_pecker.kernel.errors import (
    DatabaseUnavailable,
    Misconfigured,
    NotRecorded,
)
from celery_pecker.kernel.migrations import migrate
from celery_pecker.outbox import Mode, Outbox, outboxes
from celery_pecker.runs import guard as inheritance
from celery_pecker.testing import eventually
from tests.integration.outbox.conftest import Desk, make_app
from tests.integration.outbox.doors import ALIAS, Undo, django_connection
from tests.services import PostgresStand


@pytest.mark.parametrize(
    ("outbox", "mode"), [(True, 0), ("relay", 0), ("until_done", 1), ("local", 2)]
)
def test_a_plain_call_is_recorded_at_once(
    desk: Desk, outbox: object, mode: int
) -> None:
    """Where no transaction is open: over a connection of ours, which commits."""
    note = desk.task(outbox=outbox)
    called = [note.delay(1), note.apply_async((2,)), note.s(3).delay()]
    rows = desk.rows()
    assert [row["task_id"] for row in rows] == [result.id for result in called]
    assert {row["mode"] for row in rows} == {mode}
    assert all((row["due_at"] is None) == (mode == 0) for row in rows)


def test_a_group_of_such_tasks_is_recorded(desk: Desk) -> None:
    """Celery hands its messages a producer of the pool: no choice of a user's."""
    note = desk.task(outbox=True)
    grouped: Any = group(note.s(i) for i in range(3)).delay()
    assert desk.ids() == [result.id for result in grouped]


def test_other_tasks_go_to_the_broker(desk: Desk) -> None:
    """As ever: it is away. Options of ours are refused there."""
    with pytest.raises(OperationalError):
        desk.task().delay(1)
    off = desk.task("off", outbox=False)
    with pytest.raises(OperationalError):
        off.delay(1)
    with pytest.raises(NotRecorded, match="dedupe_key is 'k', but this message goes"):
        off.apply_async((1,), dedupe_key="k")
    with pytest.raises(NotRecorded, match="outbox of 'odd' is 'sometimes'; allowed"):
        desk.task("odd", outbox="sometimes").delay(1)
    assert desk.rows() == []


def test_a_connection_or_producer_of_the_caller_goes_before(desk: Desk) -> None:
    """Who brings one wants the broker, and so does a scheduler."""
    note = desk.task(outbox=True)
    with desk.app.connection_for_write() as connection:
        with pytest.raises(OperationalError):
            note.apply_async((1,), connection=connection)
        producer = desk.app.amqp.Producer(connection)
        with pytest.raises(OperationalError):
            note.apply_async((1,), producer=producer)
    assert desk.rows() == []


def test_a_plain_call_joins_the_atomic_block_of_django(desk: Desk) -> None:
    """With its savepoints; outside of it, it commits at once."""
    app = make_app(desk.dsn)
    with_alias = Desk(desk.dsn, app, Outbox(app, alias=ALIAS))
    note = with_alias.task(outbox=True)
    connection = django_connection(desk.dsn)
    with suppress(Undo), transaction.atomic(using=ALIAS):
        note.delay(1)
        raise Undo
    with transaction.atomic(using=ALIAS):
        first = note.delay(2)
        with suppress(Undo), transaction.atomic(using=ALIAS):
            note.delay(3)
            raise Undo
        assert with_alias.rows() == []
    last = note.delay(4)
    assert with_alias.ids() == [first.id, last.id]
    connection.close()
    with_alias.outbox.close()


def test_with_several_databases_the_named_one_is_joined(
    desk: Desk, postgres_server: PostgresStand
) -> None:
    """An atomic block of another alias is somebody else's transaction."""
    connection = django_connection(desk.dsn)
    with postgres_server.fresh(migrated=True) as elsewhere:
        other = django_connection(elsewhere, "other")
        app = make_app(desk.dsn)
        outbox = Outbox(app, alias=ALIAS)
        note = Desk(desk.dsn, app, outbox).task(outbox=True)
        with suppress(Undo), transaction.atomic(using="other"):
            kept = note.delay(1)
            raise Undo
        with transaction.atomic(using="other"):
            beside = outbox.send(note.s(2), connection=other)
        assert desk.ids() == [kept.id]
        assert Desk(elsewhere, app, outbox).ids() == [beside.id]
        other.close()
        outbox.close()
    connection.close()


def test_a_second_outbox_is_on_a_server_of_its_own(
    desk: Desk, postgres_server: PostgresStand
) -> None:
    """It has a name; tasks with outbox= go to the first."""
    with postgres_server.fresh(migrated=False) as elsewhere:
        migrate(elsewhere, schema="mine")
        eu = Outbox(desk.app, dsn=elsewhere, schema="mine", name="eu")
        assert outboxes(desk.app) == [desk.outbox, eu]
        assert (eu.settings.dsn, eu.settings.schema) == (elsewhere, "mine")
        first = desk.task(outbox=True).delay(1)
        second = eu.send(desk.task().s(2))
        with psycopg.connect(elsewhere) as connection:
            with eu.using(connection):
                third = desk.task().delay(3)
                beside = desk.outbox.send(desk.task().s(4))
            found = connection.execute(
                sql.SQL("select task_id from {}.pecker_outbox order by id").format(
                    sql.Identifier("mine")
                )
            ).fetchall()
        assert desk.ids() == [first.id, beside.id]
        assert found == [(second.id,), (third.id,)]
        eu.close()


def test_an_outbox_needs_no_pecker_dsn_if_it_has_its_own(dsn: str) -> None:
    """And says so if it has neither."""
    app = make_app(dsn)
    app.conf.pecker_dsn = None
    outbox = Outbox(app, dsn=dsn)
    desk = Desk(dsn, app, outbox)
    result = desk.task(outbox=True).delay(1)
    assert desk.ids() == [result.id]
    with pytest.raises(Misconfigured, match="pecker_dsn is not set"):
        Outbox(app, name="none").send(desk.task().s())
    outbox.close()


def test_the_mode_of_a_call_goes_before_the_task_s(desk: Desk) -> None:
    """Also back to the plain one."""
    note = desk.task(outbox="until_done")
    desk.outbox.send(note.s(1))
    desk.outbox.send(note.s(1), mode="relay")
    desk.outbox.send(note.s(1), mode=Mode.LOCAL)
    assert [row["mode"] for row in desk.rows()] == [1, 0, 2]


# Keys


def test_a_second_one_of_a_key_is_the_first_while_that_waits(desk: Desk) -> None:
    """Its result is the first's, whatever it was called with."""
    note = desk.task(outbox=True)
    first = note.apply_async((1,), dedupe_key="order 1", countdown=60)
    again = note.apply_async((2,), dedupe_key="order 1")
    sent = desk.outbox.send(note.s(3), dedupe_key="order 1")
    other = note.apply_async((4,), dedupe_key="order 2")
    assert first.id == again.id == sent.id
    assert type(again) is type(first)
    assert desk.ids() == [first.id, other.id]
    with psycopg.connect(desk.dsn) as connection:
        connection.execute("delete from pecker_outbox where dedupe_key = 'order 1'")
    assert note.apply_async((5,), dedupe_key="order 1").id != first.id


def test_a_key_that_was_taken_to_be_sent_does_not_wait(desk: Desk) -> None:
    """It may have been read before our data could be seen: a new one is recorded."""
    note = desk.task(outbox=True)
    first = note.apply_async((1,), dedupe_key="k")
    with psycopg.connect(desk.dsn) as connection:
        connection.execute("update pecker_outbox set dedupe_key = null")
    assert note.apply_async((2,), dedupe_key="k").id != first.id
    assert len(desk.rows()) == 2


def test_one_key_in_many_transactions_at_once_is_one_row(desk: Desk) -> None:
    """Each waits for the one before it, and gets its id."""
    note = desk.task()

    def call(_: int) -> str:
        with psycopg.connect(desk.dsn) as connection:
            result = desk.outbox.send(note.s(), connection=connection, dedupe_key="k")
        return str(result.id)

    with ThreadPoolExecutor(8) as pool:
        found = {*pool.map(call, range(40))}
    assert found == {*desk.ids()}
    assert len(found) == 1


def test_the_row_that_a_key_hit_waits_for_its_caller(desk: Desk) -> None:
    """A relay must not take it before what the caller wrote can be seen."""
    note = desk.task(outbox=True)
    note.apply_async((1,), dedupe_key="k")
    taking = "select id from pecker_outbox for update skip locked"
    with psycopg.connect(desk.dsn) as caller, psycopg.connect(desk.dsn) as relay:
        desk.outbox.send(note.s(2), connection=caller, dedupe_key="k")
        assert relay.execute(taking).fetchall() == []
        caller.rollback()
        assert len(relay.execute(taking).fetchall()) == 1


# Inside of a run


def test_a_message_does_not_inherit_what_is_left_of_the_run(desk: Desk) -> None:
    """It is work of its own: sent later, it would only be refused."""
    inheritance.connect()
    note = desk.task(outbox=True)
    with deadline.within(30):
        note.delay(1)
        desk.outbox.send(note.s(2))
        left = deadline.remaining()
    assert left is not None
    assert all("pecker_deadline" not in row["headers"] for row in desk.rows())


def test_what_goes_on_with_a_run_joins_no_transaction(
    dsn: str, queue_name: str
) -> None:
    """Celery raises after retry() and replace(): the transaction is rolled back."""
    app = make_app(dsn, "memory://", task_default_queue=queue_name)
    desk = Desk(dsn, app, Outbox(app))
    decorate: Any = app.task(name="again", bind=True, outbox=True, shared=False)

    def again(self: Any) -> None:
        with psycopg.connect(dsn) as connection, desk.outbox.using(connection):
            desk.task().delay("undone")
            raise self.retry(countdown=1)

    decorate(again)
    app.finalize()
    tracer: Any = build_tracer("again", app.tasks["again"], app=app)
    request = {"id": "the-run", "is_eager": False, "called_directly": False}
    tracer("the-run", (), {}, request)
    with app.connection_for_read() as connection:
        sent: Any = connection.default_channel.basic_get(queue_name, no_ack=True)  # type: ignore[attr-defined]
    assert sent.headers["id"] == "the-run"
    assert sent.headers["retries"] == 1
    assert desk.rows() == []


# Connections of ours


def test_a_server_that_went_away_meanwhile_costs_no_message(desk: Desk) -> None:
    """An idle connection that it closed is not used."""
    note = desk.task(outbox=True)
    note.delay(1)
    with psycopg.connect(desk.dsn, autocommit=True) as connection:
        ended = connection.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where application_name = 'celery_pecker:outbox'"
            " and datname = current_database()"
        ).fetchall()
    assert ended == [(True,)]
    note.delay(2)
    assert len(desk.rows()) == 2


def test_many_threads_record_at_once(desk: Desk) -> None:
    """Each over a connection of its own, few of which stay."""
    note = desk.task(outbox=True)
    with ThreadPoolExecutor(16) as pool:
        found = [*pool.map(lambda number: note.delay(number).id, range(200))]
    assert sorted(found) == sorted(desk.ids())
    assert len({*found}) == 200


def test_a_hundred_threads_share_a_few_connections(desk: Desk) -> None:
    """A server takes a hundred in all; the others wait until it is their turn."""
    desk.app.conf.pecker_database_timeout = 60.0
    note = desk.task(outbox=True)
    first = note.delay(0)
    writer: Any = desk.outbox._writer
    with ThreadPoolExecutor(100) as pool, psycopg.connect(desk.dsn) as connection:
        connection.execute("lock table pecker_outbox in share mode")
        called = [pool.submit(note.delay, number) for number in range(100)]
        eventually(
            lambda: len(writer._calls.connections._places._queue) == 100 - MAX_IDLE,
            60.0,
        )
        waiting = (
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
            " and datname = current_database()"
        )
        eventually(lambda: connection.execute(waiting).fetchone() == (MAX_IDLE,), 60.0)
        connection.rollback()
        ids = [first.id, *(one.result(60.0).id for one in called)]
    assert sorted(desk.ids()) == sorted(ids)


def test_a_fork_records_over_connections_of_its_own(desk: Desk) -> None:
    """Two processes on one socket would read each other's answers."""
    note = desk.task(outbox=True)
    note.delay(0)
    child = os.fork()
    if child == 0:
        try:
            for number in range(20):
                note.delay(number)
        finally:
            os._exit(0)
    for number in range(20):
        note.delay(number)
    os.waitpid(child, 0)
    bodies = [json.loads(bytes(row["body"]))[0][0] for row in desk.rows()]
    assert sorted(bodies) == sorted([0, *range(20), *range(20)])


def test_without_a_database_a_plain_call_says_so(dsn: str) -> None:
    """It does not fall back to the broker."""
    app = make_app("postgresql://nobody@127.0.0.1:1/nowhere")
    desk = Desk(dsn, app, Outbox(app))
    with pytest.raises(DatabaseUnavailable):
        desk.task(outbox=True).delay(1)


@pytest.mark.parametrize(("outbox", "mode"), [(True, 0), ("until_done", 1)])
def test_maps_and_chunks_of_such_a_task_are_recorded(
    desk: Desk, outbox: object, mode: int
) -> None:
    """Their message is one of Celery's own tasks; a rollback takes it back."""
    app = make_app(desk.dsn)
    with_alias = Desk(desk.dsn, app, Outbox(app, alias=ALIAS))
    note = with_alias.task(outbox=outbox)
    connection = django_connection(desk.dsn)
    with suppress(Undo), transaction.atomic(using=ALIAS):
        note.map([1, 2]).delay()
        note.starmap([(1,), (2,)]).delay()
        note.chunks([(1,), (2,)], 1).delay()
        raise Undo
    assert desk.rows() == []
    with transaction.atomic(using=ALIAS):
        note.map([1, 2]).delay()
        note.starmap([(1,), (2,)]).delay()
        note.chunks([(1,), (2,), (3,)], 2).delay()
        assert desk.rows() == []
    assert [row["task"] for row in desk.rows()] == [
        "celery.map",
        *["celery.starmap"] * 3,
    ]
    assert {row["mode"] for row in desk.rows()} == {mode}
    connection.close()
    with_alias.outbox.close()
    with pytest.raises(OperationalError):
        desk.task("plain").map([1]).delay()


def test_delay_on_commit_records_in_the_transaction(desk: Desk) -> None:
    """Not after its commit: what dies in between would lose it."""
    app = make_app(desk.dsn)
    app.task_cls = "celery.contrib.django.task:DjangoTask"
    outbox = Outbox(app)
    theirs = Desk(desk.dsn, app, outbox)
    note, plain = theirs.task(outbox=True), theirs.task("plain")
    alias = "default"
    connection = django_connection(desk.dsn, alias)
    written = "select task_id from pecker_outbox"
    with transaction.atomic(), connection.cursor() as cursor:
        note.delay_on_commit(1)
        note.apply_async_on_commit((2,), priority=3)
        with suppress(Undo), transaction.atomic():
            note.delay_on_commit("undone")
            raise Undo
        assert len(connection.run_on_commit) == 0
        assert len(cursor.execute(written).fetchall()) == 2
        assert theirs.rows() == []
        plain.delay_on_commit()
        note.apply_async_on_commit((3,), producer=SimpleNamespace())
        assert len(connection.run_on_commit) == 2
        connection.run_on_commit.clear()
    with suppress(Undo), transaction.atomic():
        note.delay_on_commit("undone")
        raise Undo
    note.delay_on_commit(4)  # outside: at once
    assert [row["priority"] for row in theirs.rows()] == [0, 3, 0]
    with transaction.atomic(), desk.outbox.transaction():
        app.conf.task_always_eager = True
        note.delay_on_commit(5)
        assert len(connection.run_on_commit) == 1
    assert len(theirs.rows()) == 3
    connection.close()
    outbox.close()


def test_delay_on_commit_of_another_database_is_as_ever(desk: Desk) -> None:
    """It waits for the commit of `default`, which the outbox would not join."""
    app = make_app(desk.dsn)
    app.task_cls = "celery.contrib.django.task:DjangoTask"
    outbox = Outbox(app, alias=ALIAS)
    theirs = Desk(desk.dsn, app, outbox)
    note = theirs.task(outbox=True)
    other = django_connection(desk.dsn)
    connection = django_connection(desk.dsn, "default")
    with transaction.atomic(), transaction.atomic(using=ALIAS):
        note.delay_on_commit(1)
        assert len(connection.run_on_commit) == 1
    assert len(theirs.rows()) == 1
    connection.close()
    other.close()
    outbox.close()
