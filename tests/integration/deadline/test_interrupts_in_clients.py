"""An interrupt that comes in the middle of a client leaves it in order all the same.

It is aimed: the code is held where its steps belong together until the deadline is over
and the alarm has rung.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest
import sqlalchemy
from django.db.transaction import Atomic as DjangoAtomic
from sqlalchemy.pool import QueuePool

from celery_pecker import deadline
from celery_pecker.deadline import DeadlineExceeded, budget, interrupter
from celery_pecker.deadline.clients import psycopg as psycopg_client
from celery_pecker.deadline.clients import sqlalchemy as sqlalchemy_client
from celery_pecker.deadline.enforcement import alarm
from celery_pecker.kernel.clock import monotonic
from celery_pecker.testing import eventually
from tests.integration.deadline.conftest import Ways
from tests.integration.deadline.exchanges import (
    BUDGET,
    CLIENTS,
    Atomic,
    django_backend,
)

OVER = 0.1
"""Seconds after the deadline for which the code is held: more than one ring."""
LONG = 60.0


@pytest.fixture(autouse=True)
def _slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave clients alone for longer than any machine needs."""
    monkeypatch.setattr(budget, "CLIENT_GRACE", LONG)
    monkeypatch.setattr(alarm, "CLIENT_GRACE", LONG)
    monkeypatch.setattr(interrupter, "CLEAN_UP", LONG)


def over() -> None:
    """Come back when the deadline in force is over, and the alarm has rung."""
    in_force = budget.current.get()
    assert in_force is not None
    while monotonic() < in_force.at + OVER:
        pass


def first_over(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what does the same after the deadline, where there is one."""

    def late(*args: Any) -> Any:
        if budget.current.get() is not None:
            over()
        return function(*args)

    return late


def then_over(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what does the same and comes back late, where there is a deadline."""

    def late(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if budget.current.get() is not None:
            over()
        return result

    return late


def struck(exchange: Callable[[], object]) -> None:
    """Play an exchange whose deadline ends there, or when it goes on."""
    with (
        suppress(DeadlineExceeded),
        deadline.enforce("prefork"),
        deadline.within(BUDGET),
    ):
        exchange()


def test_a_connection_is_given_up_whole(
    way: Ways, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is not closed would take the next answer for that of another."""
    proxy, address = way("psycopg")
    with CLIENTS["psycopg"](address) as exchange:
        right = exchange()
        proxy.hang()
        late = first_over(psycopg_client.cancel_in_thread)
        monkeypatch.setattr(psycopg_client, "cancel_in_thread", late)
        struck(exchange)
        proxy.open()
        assert exchange() == right


def test_a_statement_that_the_server_ends_leaves_its_connection_in_use(
    way: Ways, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer comes a little after the deadline: it is waited for.

    A cursor of the server's is used: its steps are not kept whole by anything else.
    """
    monkeypatch.setattr(psycopg_client, "EXTRA_TIMEOUT", LONG)
    proxy, address = way("psycopg")
    with psycopg_client.Connection.connect(address) as connection:

        def exchange() -> None:
            with connection.cursor("rows") as cursor:
                cursor.execute("select pg_sleep(600)")
                proxy.delay = OVER
                cursor.fetchone()

        struck(exchange)
        assert not connection.closed
        connection.rollback()
        assert connection.execute("select 7").fetchone() == (7,)


def test_a_statement_that_is_given_up_is_cancelled(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL is asked, and the connection closed, though the alarm rings then.

    What COPY sends has no bound of the server's: it would run on for ten minutes.
    """
    copied = "copy (select pg_sleep(600)) to stdout"
    late = first_over(psycopg_client.cancel_in_thread)
    monkeypatch.setattr(psycopg_client, "cancel_in_thread", late)
    with (
        psycopg_client.Connection.connect(dsn, autocommit=True) as connection,
        psycopg.connect(dsn, autocommit=True) as other,
    ):
        pid = connection.info.backend_pid

        def exchange() -> None:
            with connection.cursor() as cursor, cursor.copy(copied) as rows:
                list(rows)

        struck(exchange)
        assert connection.closed

        def ended() -> bool:
            there = "select count(*) from pg_stat_activity where pid = %s"
            return other.execute(there, [pid]).fetchone() == (0,)

        eventually(ended, 30.0, "the statement has ended")


@pytest.mark.parametrize(
    ("step", "held"), [("_do_get", then_over), ("_do_return_conn", first_over)]
)
def test_a_connection_that_was_lent_is_not_lost(
    dsn: str,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    held: Callable[[Any], Any],
) -> None:
    """A pool whose only one is gone lends none for ever."""
    given = psycopg.conninfo.conninfo_to_dict(dsn)
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://",
        connect_args=given,
        pool_size=1,
        max_overflow=0,
        pool_timeout=1,
    )
    sqlalchemy_client.install(engine)

    def exchange() -> Any:
        with engine.begin() as connection:
            return connection.execute(sqlalchemy.text("select 7")).scalar_one()

    try:
        assert exchange() == 7
        monkeypatch.setattr(QueuePool, step, held(getattr(QueuePool, step)))
        struck(exchange)
        assert exchange() == 7
    finally:
        engine.dispose()


def test_a_block_of_django_that_was_entered_is_left(dsn: str) -> None:
    """One that is not left keeps its connection in a transaction for ever."""
    with django_backend(dsn) as backend:

        def exchange() -> Any:
            with Atomic(backend), backend.cursor() as cursor:
                cursor.execute("select 7")
                return cursor.fetchone()

        assert exchange() == (7,)
        backend.set_autocommit = then_over(backend.set_autocommit)
        struck(exchange)
        assert not backend.in_atomic_block
        assert exchange() == (7,)
        assert DjangoAtomic.__enter__.__code__ in interrupter.INDIVISIBLE


def test_who_is_left_alone_is_so_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client's code that does not come back is ended as any other."""
    monkeypatch.setattr(alarm, "CLIENT_GRACE", OVER)

    def spins() -> None:
        end = monotonic() + LONG
        while monotonic() < end:
            pass

    interrupter.keep_whole(spins)
    try:
        with (
            pytest.raises(DeadlineExceeded),
            deadline.within(0.01),
            deadline.enforce("solo"),
        ):
            spins()
    finally:
        interrupter.INDIVISIBLE.discard(spins.__code__)
