"""What PostgreSQL is told, and in which state a connection is left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row

from celery_pecker import deadline
from celery_pecker.deadline import DeadlineExceeded
from celery_pecker.deadline.clients.psycopg import (
    POSTGRESQL_17,
    Connection,
    install,
)
from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.testing import eventually
from tests.integration.deadline.conftest import Ways

BUDGET = 0.15
SLOW = "select pg_sleep(30)"


@pytest.fixture
def connection(dsn: str) -> Iterator[Connection[Any]]:
    """Give a bounded connection."""
    with Connection.connect(dsn) as connected:
        yield connected


@pytest.fixture
def watcher(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """Give a connection that looks on."""
    with psycopg.connect(dsn, autocommit=True) as connected:
        yield connected


@pytest.mark.parametrize("autocommit", [True, False])
def test_postgresql_ends_it_and_the_connection_lives(
    connection: Connection[Any], autocommit: bool
) -> None:
    """The server's bound came along with the statement."""
    connection.autocommit = autocommit
    pid = connection.info.backend_pid
    began = monotonic()
    # enough of it is left for the server on a machine that is busy
    with deadline.within(1.0), pytest.raises(DeadlineExceeded) as caught:
        connection.execute(SLOW)
    assert monotonic() - began < 10
    assert isinstance(caught.value.__cause__, psycopg.errors.QueryCanceled)
    connection.rollback()
    assert connection.execute("select 7").fetchone() == (7,)
    assert connection.info.backend_pid == pid


@pytest.mark.parametrize("autocommit", [True, False])
def test_a_block_that_begins_too_late_breaks_nothing(
    connection: Connection[Any], autocommit: bool
) -> None:
    """It is refused, as often as it likes, and the next one is in order."""
    connection.autocommit = autocommit
    for _ in range(2):
        with (
            deadline.within(0),
            pytest.raises(DeadlineExceeded),
            connection.transaction(),
        ):
            raise AssertionError
    with connection.transaction():
        assert connection.execute("select 7").fetchone() == (7,)


def test_an_error_that_arrives_in_pieces_is_read_to_its_end(
    way: Ways,
) -> None:
    """PostgreSQL sends an error, and later that the pipeline is over."""
    proxy, address = way("psycopg")
    own = "-c statement_timeout=50ms"
    with Connection.connect(address, autocommit=True, options=own) as connection:
        pid = connection.info.backend_pid
        proxy.drip(0.001)
        with deadline.within(30), pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute(SLOW)
        proxy.open()
        assert connection.execute("select 7").fetchone() == (7,)
        assert connection.info.backend_pid == pid


@pytest.mark.parametrize("autocommit", [True, False])
def test_a_stricter_bound_of_the_session_stays(dsn: str, autocommit: bool) -> None:
    """Also one that is set while the connection is in use, and until it is gone."""
    with Connection.connect(
        dsn, autocommit=autocommit, options="-c statement_timeout=1min"
    ) as connection:
        for own, stays in (
            ("1min", False),
            ("50ms", True),
            ("50ms", True),
            ("40ms", True),
            ("0", False),
        ):
            connection.execute(f"set statement_timeout = '{own}'")
            connection.commit()
            with deadline.within(30):
                cursor = connection.execute(
                    "select current_setting('statement_timeout')"
                )
                inside = cursor.fetchone()
                assert ((own,) == inside) is stays, own
                assert inside != ("0",)
                connection.commit()


def test_a_transaction_may_set_itself_up(connection: Connection[Any]) -> None:
    """Before its first query; and a longer bound of the session gives way to ours."""
    with deadline.within(30):
        connection.execute("set transaction isolation level serializable")
        connection.commit()
    if connection.info.server_version < POSTGRESQL_17:
        return
    connection.execute("set transaction_timeout = '1h'")
    connection.commit()
    with deadline.within(0.05):
        connection.execute("set local statement_timeout = 0")
    with pytest.raises(psycopg.Error, match="transaction timeout"):
        connection.execute("select pg_sleep(10)")


@pytest.mark.parametrize("autocommit", [True, False])
def test_the_bound_of_one_run_is_not_left_for_the_next(
    connection: Connection[Any], autocommit: bool
) -> None:
    """It is local to the transaction, so a pooler may stand between."""
    connection.autocommit = autocommit
    shown = connection.execute("show statement_timeout").fetchone()
    connection.rollback()
    with deadline.within(30):
        cursor = connection.execute("select current_setting('statement_timeout')")
        inside = cursor.fetchone()
        connection.commit()
    assert inside != shown
    assert connection.execute("show statement_timeout").fetchone() == shown


def test_what_the_server_does_not_end_is_cancelled(
    dsn: str, watcher: psycopg.Connection[Any]
) -> None:
    """A statement that has lifted the bound: the client gives up, and says so."""
    with Connection.connect(dsn, autocommit=True) as connection:
        pid = connection.info.backend_pid
        lifted = f"set statement_timeout = 0; {SLOW}"
        with deadline.within(BUDGET), pytest.raises(DeadlineExceeded):
            connection.execute(lifted)
        assert connection.closed

    def gone() -> bool:
        return not watcher.execute(
            "select from pg_stat_activity where pid = %s and state = 'active'", [pid]
        ).fetchall()

    eventually(gone, 30.0, "the statement is cancelled")


def test_nothing_is_committed_after_the_deadline(
    connection: Connection[Any], watcher: psycopg.Connection[Any]
) -> None:
    """Neither by commit() nor at the end of a transaction block."""
    connection.execute("create table written (by text)")
    connection.commit()
    with deadline.within(30):
        connection.execute("insert into written values ('commit')")
        with deadline.within(0), pytest.raises(DeadlineExceeded):
            connection.commit()
        connection.rollback()
        with pytest.raises(DeadlineExceeded):
            write_too_late(connection)
    assert watcher.execute("select * from written").fetchall() == []
    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def write_too_late(connection: Connection[Any]) -> None:
    """Write in a block whose end comes after the deadline."""
    with deadline.within(BUDGET) as block, connection.transaction():
        connection.execute("insert into written values ('block')")
        eventually(lambda: block.expired, 30.0)


def test_a_rollback_is_let_through(connection: Connection[Any]) -> None:
    """Or locks would be held on."""
    connection.execute("create temporary table mine (x int)")
    with deadline.within(0):
        connection.rollback()
    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_statements_are_what_they_were(connection: Connection[Any]) -> None:
    """In a pipeline of one, which the caller does not see."""
    connection.autocommit = True
    with deadline.within(30):
        connection.execute("vacuum")
        connection.execute("select 1; select 2")
        rows = connection.execute("values (1, 'a'), (2, %s)", ["b"])
        assert rows.rowcount == 2
        assert rows.fetchall() == [(1, "a"), (2, "b")]
        with connection.cursor(row_factory=dict_row) as cursor:
            cursor.execute("select 1 as one, %(two)s::int as two", {"two": 2})
            assert cursor.fetchone() == {"one": 1, "two": 2}
            cursor.execute(sql.SQL("select {}").format(sql.Literal(3)))
            assert cursor.fetchone() == {"?column?": 3}
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("select 1 / 0")
        assert connection.execute("select ';'").fetchone() == (";",)
        with connection.cursor() as cursor:
            cursor.executemany("select %s::int", [(1,), (2,)])
        with connection.cursor(name="named") as named, connection.transaction():
            named.execute("select generate_series(1, 5)")
            assert len(named.fetchall()) == 5
        assert list(connection.cursor().stream("values (1), (2)")) == [(1,), (2,)]
        with connection.cursor().copy("copy (select 1) to stdout") as copy:
            assert b"".join(copy) == b"1\n"
        with connection.pipeline():
            first = connection.execute("select 1")
            second = connection.execute("select 2")
        assert (first.fetchone(), second.fetchone()) == ((1,), (2,))


def test_a_shield_lets_a_clean_up_talk(connection: Connection[Any]) -> None:
    """For as long as it was given."""
    with deadline.within(0):
        with deadline.shield(20):
            assert connection.execute("select 1").fetchone() == (1,)
            connection.commit()
        with pytest.raises(DeadlineExceeded):
            connection.execute("select 1")


def test_a_connection_that_is_there_can_be_bounded(dsn: str) -> None:
    """A class of one's own inherits instead, and is told so."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        install(connection)
        install(connection)
        with deadline.within(BUDGET), pytest.raises(DeadlineExceeded):
            connection.execute(SLOW)
        assert connection.execute("select 1").fetchone() == (1,)

    class Own(psycopg.Connection[Any]):
        """A user's."""

    with Own.connect(dsn) as own, pytest.raises(Misconfigured, match=r"install\(Own\)"):
        install(own)


def test_a_bound_of_the_user_s_own_stays_an_error_of_its_own(
    connection: Connection[Any],
) -> None:
    """Only the deadline's end is DeadlineExceeded."""
    with deadline.within(30):
        connection.execute("set local statement_timeout = 20")
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute(SLOW)
