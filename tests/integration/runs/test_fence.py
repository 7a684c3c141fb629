"""Guarded writes: in one transaction with what they guard, whoever opens it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from threading import Thread
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import sqlalchemy
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row
from sqlalchemy.orm import Session

from celery_pecker.deadline.clients.psycopg import POSTGRESQL_17
from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.kernel.errors import Misconfigured, Overtaken
from celery_pecker.kernel.settings import Settings
from celery_pecker.runs.instants import Instants
from celery_pecker.runs.start import Start, Starter, StartVerdict
from celery_pecker.testing import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from celery_pecker.runs import Run
    from tests.integration.runs.conftest import Bench


@pytest.fixture
def starter(bench: Bench) -> Iterator[Starter]:
    """Give the start check."""
    settings = Settings(dsn=bench.dsn, app="runs", database_timeout=1.0)
    made = Starter(settings, Instants(SYSTEM), SYSTEM)
    yield made
    made.close()


@pytest.fixture
def user(bench: Bench) -> Iterator[psycopg.Connection[Any]]:
    """Give a user's connection, with habits of its own, and a table."""
    with psycopg.connect(bench.dsn, row_factory=dict_row) as connection:
        connection.execute("create table rooms (state text)")
        connection.commit()
        yield connection


def started(starter: Starter, run: Run) -> Run:
    """Return the run; it has started."""
    assert starter.start(run, asked=False).verdict is StartVerdict.STARTED
    return run


def test_a_write_of_the_last_run_is_written(
    bench: Bench, starter: Starter, user: psycopg.Connection[Any]
) -> None:
    """As often as it likes, and by what it sends."""
    run = started(starter, bench.run())
    for _ in range(2):
        run.guard(user)
        user.execute("insert into rooms values ('swept')")
        user.commit()
    cursor = run.guarded(
        user, "select count(*) as n from rooms where state = %s", ["swept"]
    )
    assert cursor.fetchone() == {"n": 2}


@pytest.mark.parametrize("how", ["claimed", "started", "retried"])
def test_a_stale_write_is_refused(
    how: str, bench: Bench, starter: Starter, user: psycopg.Connection[Any]
) -> None:
    """Once a newer run was claimed, or has started; and after its own retry."""
    run = started(starter, bench.run())
    if how == "retried":
        started(starter, replace(run, attempt=1))
    else:
        newer = bench.run()
        if how == "started":
            started(starter, newer)
    with pytest.raises(Overtaken, match=r"'sweep'.*overtaken"):
        run.guarded(user, "insert into rooms values ('stale')")
    assert user.execute("select * from rooms").fetchall() == []


def test_a_run_without_a_start_check_is_fenced_too(
    bench: Bench, user: psycopg.Connection[Any]
) -> None:
    """Local ones, and those without a timeout: the guard takes the fence."""
    old = replace(bench.run(), deadline=None)
    old.guarded(user, "insert into rooms values ('old')")
    new = replace(bench.run(), deadline=None)
    new.guarded(user, "insert into rooms values ('new')")
    with pytest.raises(Overtaken):
        old.guarded(user, "insert into rooms values ('old')")
    assert len(user.execute("select * from rooms").fetchall()) == 2


def test_no_newer_run_starts_within_a_guarded_transaction(
    bench: Bench, starter: Starter, user: psycopg.Connection[Any]
) -> None:
    """It waits, in bounds; without them the old one could write over the new one."""
    run = started(starter, bench.run())
    run.guard(user)
    newer = bench.run()
    answers: list[Start] = []
    thread = Thread(target=lambda: answers.append(starter.start(newer, asked=False)))
    thread.start()
    eventually(lambda: waiting(bench) == 1, 30.0, "the newer run waits")
    user.execute("insert into rooms values ('just in time')")
    user.commit()
    thread.join()
    assert [answer.verdict for answer in answers] == [StartVerdict.STARTED]

    newer.guard(user)
    # Without its bound it would wait for us, and we for it
    held = starter.start(bench.run(), asked=False)
    assert held.verdict is StartVerdict.UNKNOWN
    user.rollback()


def test_the_server_ends_a_guarded_transaction_of_a_frozen_process(
    bench: Bench, starter: Starter, user: psycopg.Connection[Any]
) -> None:
    """At the deadline, a second later at most: a newer run can start then."""
    run = started(starter, bench.run(ago=4.5))
    run.guard(user)
    user.execute("insert into rooms values ('never seen')")
    newer = bench.run()
    eventually(
        lambda: starter.start(newer, asked=False).verdict is StartVerdict.STARTED,
        30.0,
        "the newer run starts",
    )
    with pytest.raises(psycopg.Error):
        user.commit()


@pytest.mark.parametrize(
    "bound", ["idle_in_transaction_session_timeout", "transaction_timeout"]
)
def test_bounds_of_the_user_s_own_stay_if_they_are_stricter(
    bench: Bench, user: psycopg.Connection[Any], bound: str
) -> None:
    """And a deadline that is years away is no bound that PostgreSQL could not take."""
    if bound == "transaction_timeout" and user.info.server_version < POSTGRESQL_17:
        pytest.skip("PostgreSQL 17 was the first to have it")
    far = replace(bench.run(), deadline=datetime(2200, 1, 1, tzinfo=UTC))
    near = bench.run()
    for run, own, shown in (
        (near, "3s", "3s"),
        (near, "1h", "4"),
        (far, "1h", "1h"),
        (far, "0", "2147483647ms"),
    ):
        user.execute(f"set local {bound} = '{own}'")
        replace(run, epoch=near.epoch).guard(user)
        now: Any = user.execute(f"show {bound}").fetchone()
        assert now[bound].startswith(shown), own
        user.rollback()


def test_a_longer_bound_of_the_user_s_own_does_not_go_on(
    bench: Bench, user: psycopg.Connection[Any]
) -> None:
    """It began to count with the transaction; a busy one ends with its run too."""
    if user.info.server_version < POSTGRESQL_17:
        pytest.skip("PostgreSQL 17 was the first to have it")
    user.execute("set transaction_timeout = '1h'")
    user.commit()
    bench.run(ago=3.5).guard(user)
    with pytest.raises(psycopg.Error, match="transaction timeout"):
        user.execute("select pg_sleep(10)")


def test_outside_of_a_transaction_nothing_is_guarded(
    bench: Bench, starter: Starter
) -> None:
    """The driver knows, whoever stands in front of it."""
    run = started(starter, bench.run())
    engine = sqlalchemy.create_engine(url(bench.dsn), isolation_level="AUTOCOMMIT")
    with psycopg.connect(bench.dsn, autocommit=True) as connection:
        with pytest.raises(Misconfigured, match="open transaction"):
            run.guard(connection)
        run.guarded(connection, "select 1")
        with connection.transaction():
            run.guard(connection)
    with engine.connect() as other, pytest.raises(Misconfigured, match="open trans"):
        run.guard(other)
    engine.dispose()


def test_through_sqlalchemy(bench: Bench, starter: Starter) -> None:
    """A connection and a session; SQL as text and as expressions."""
    run = started(starter, bench.run())
    engine = sqlalchemy.create_engine(url(bench.dsn))
    add = sqlalchemy.text("insert into rooms values (:state)")
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("create table rooms (state text)"))
    with engine.begin() as connection:
        run.guard(connection)
        connection.execute(add, {"state": "one"})
    with engine.connect() as connection:
        run.guarded(connection, add, {"state": "two"})
    with Session(engine) as session:
        run.guard(session)
        session.execute(add, {"state": "three"})
        session.commit()
    bench.claim()
    with engine.begin() as connection, pytest.raises(Overtaken):
        run.guard(connection)
    with psycopg.connect(bench.dsn) as plain:
        rows = plain.execute("select state from rooms").fetchall()
        assert sorted(rows) == [("one",), ("three",), ("two",)]
    engine.dispose()


def test_through_django(bench: Bench, starter: Starter) -> None:
    """Its connection, inside `atomic` or with a transaction of its own."""
    import django  # noqa: PLC0415
    from django.conf import settings  # noqa: PLC0415
    from django.db.backends.postgresql.base import (  # noqa: PLC0415
        DatabaseWrapper,
    )

    if not settings.configured:
        settings.configure()
    django.setup()
    given = conninfo_to_dict(bench.dsn)
    run = started(starter, bench.run())
    connection = DatabaseWrapper(
        {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": given["dbname"],
            "USER": given["user"],
            "PASSWORD": given["password"],
            "HOST": given["host"],
            "PORT": given["port"],
            "OPTIONS": {},
            "TIME_ZONE": None,
            "CONN_MAX_AGE": 0,
            "CONN_HEALTH_CHECKS": False,
            "AUTOCOMMIT": True,
            "ATOMIC_REQUESTS": False,
            "TEST": {},
        },
        alias="rooms",
    )
    from django.db import connections  # noqa: PLC0415

    connections["rooms"] = connection
    with connection.cursor() as cursor:
        cursor.execute("create table rooms (state text)")
    run.guarded(connection, "insert into rooms values (%s)", ["one"])
    with pytest.raises(Misconfigured):
        run.guard(connection)
    bench.claim()
    with pytest.raises(Overtaken):
        run.guarded(connection, "insert into rooms values (%s)", ["two"])
    with connection.cursor() as cursor:
        cursor.execute("select state from rooms")
        assert cursor.fetchall() == [("one",)]
    connection.close()


def waiting(bench: Bench) -> int:
    """Return how many start checks wait for a lock."""
    with psycopg.connect(bench.dsn, autocommit=True) as connection:
        (count,) = connection.execute(
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
            " and query like '/* celery_pecker:start_run */%'"
            " and datname = current_database()"
        ).fetchone() or (0,)
    return int(count)


def url(dsn: str) -> str:
    """Return the address as SQLAlchemy wants it."""
    return dsn.replace("postgresql://", "postgresql+psycopg://", 1)
