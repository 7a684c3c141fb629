"""What of psycopg counts, against a real server."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from celery_pecker import deadline
from celery_pecker.deadline.clients import psycopg as deadline_client
from celery_pecker.kernel.clock import monotonic
from throttle import instrument
from throttle.errors import Misconfigured

Connection = psycopg.Connection[Any]
SLOW = "select pg_sleep(0.05)"


def test_statements_count_with_their_rows_and_seconds(
    connection: Connection, count: Any
) -> None:
    """By the connection and by a cursor, with parameters and without."""
    assert connection.execute("select * from t").fetchall()
    assert count() == (1, 10)
    with connection.cursor(row_factory=dict_row) as cursor:
        cursor.execute("update t set a = a + %s where a <= %s", [100, 4])
        cursor.execute(SLOW, prepare=True)
    assert count() == (2, 5)
    assert count.seconds > 0.05


def test_a_failed_statement_counts(connection: Connection, count: Any) -> None:
    """It was work; it returned nothing."""
    with pytest.raises(psycopg.errors.DivisionByZero):
        connection.execute("select 1 / 0")
    assert count() == (1, 0)
    assert count.seconds > 0


def test_each_set_of_parameters_counts(connection: Connection, count: Any) -> None:
    """Of a list, of an iterator, and those before one that fails."""
    cursor = connection.cursor()
    cursor.executemany("insert into t values (%s)", [(1,), (2,), (3,)])
    assert count() == (3, 3)
    cursor.executemany(
        "select generate_series(1, %s)", iter([(2,), (3,)]), returning=True
    )
    assert count()[0] == 2
    with pytest.raises(psycopg.DataError):
        cursor.executemany("insert into t values (%s)", [(1,), ("no number",), (3,)])
    assert 2 <= count()[0] <= 3


def test_a_stream_counts_what_was_fetched(connection: Connection, count: Any) -> None:
    """One statement, however it ends."""
    cursor = connection.cursor()
    assert len(list(cursor.stream("select * from t"))) == 10
    assert count() == (1, 10)
    rows = cursor.stream("select generate_series(1, 100000)")
    assert next(rows) == (1,)
    rows.close()  # type: ignore[attr-defined]
    assert count() == (1, 1)
    assert connection.execute("select 7").fetchone() == (7,)


def test_a_copy_counts_its_rows(connection: Connection, count: Any) -> None:
    """In both directions, and when it fails."""
    cursor = connection.cursor()
    with cursor.copy("copy t from stdin") as copy:
        copy.write_row((1,))
        copy.write_row((2,))
    assert count() == (1, 2)
    with cursor.copy("copy t to stdout") as copy:
        assert sum(1 for _ in copy.rows()) == 12
    assert count() == (1, 12)
    with pytest.raises(psycopg.DataError), cursor.copy("copy t from stdin") as copy:
        copy.write(b"no number\n")
    assert count() == (1, 0)


def test_each_fetch_of_a_server_side_cursor_counts(
    connection: Connection, count: Any
) -> None:
    """And the transaction about it: a commit."""
    with connection.transaction(), connection.cursor("held") as cursor:
        cursor.itersize = 4
        cursor.execute("select * from t")
        assert len(list(cursor)) == 10
    # declared; 4, 4, 2 rows; committed
    assert count() == (5, 10)


def test_the_ends_of_transactions_count(connection: Connection, count: Any) -> None:
    """Not their beginnings, nor savepoints, nor an end of nothing."""
    connection.autocommit = False
    connection.execute("select 1")
    connection.commit()
    assert count() == (2, 1)
    connection.commit()
    connection.rollback()
    assert count() == (0, 0)
    whole = connection.transaction(force_rollback=True)
    with whole, connection.transaction(force_rollback=True):
        connection.execute("select 1")
    assert count() == (2, 1)


def test_a_pipeline_counts_its_statements_and_its_waits(
    connection: Connection, count: Any
) -> None:
    """A wait counts wherever it is: at a fetch, at the end."""
    with connection.pipeline():
        connection.execute(SLOW)
        cursor = connection.execute("select 7")
        with connection.pipeline():
            assert cursor.fetchone() == (7,)
    assert count()[0] == 2
    assert 0.05 < count.seconds < 5
    with connection.pipeline():
        connection.execute(SLOW)
        assert connection.execute("select 7").fetchone() == (7,)
        connection.execute(SLOW)
    assert count()[0] == 3
    assert 0.1 < count.seconds < 5
    assert "wait" not in vars(connection)
    began = monotonic()
    with connection.pipeline():
        cursor = connection.cursor()
        cursor.executemany("select pg_sleep(%s)", [(0.05,), (0.05,)], returning=True)
        connection.execute("select 7")
    passed = monotonic() - began
    assert count()[0] == 3
    assert 0.1 < count.seconds <= passed  # no wait is timed twice


def test_without_timing_only_operations_count(empty_dsn: str, count: Any) -> None:
    """The cheapest there is."""
    kind = instrument.psycopg(timing=False, meter=count.meter)
    with kind.connect(empty_dsn) as connection:
        connection.execute("select generate_series(1, 9)")
        cursor = connection.cursor()
        cursor.executemany("select %s", [(1,), (2,)])
        with connection.pipeline():
            connection.execute("select 1")
        assert list(cursor.stream("select 7")) == [(7,)]
        connection.commit()
        assert count() == (6, 0)
        assert count.seconds == 0


# What there is already


def test_a_connection_that_is_there_counts_until_it_is_let_go(
    empty_dsn: str, count: Any
) -> None:
    """Twice is once; another database replaces the first."""
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        assert instrument.psycopg(connection, meter=count.meter) is connection
        instrument.psycopg(connection, meter=count.meter)
        connection.execute("select 1")
        assert count() == (1, 1)
        instrument.psycopg(connection, "other", meter=count.meter)
        connection.execute("select 1")
        assert count("other") == (1, 1)
        instrument.uninstall(connection)
        instrument.uninstall(connection)
        connection.execute("select 1")
        with connection.cursor("held", withhold=True) as cursor:
            cursor.execute("select 1")
        assert count() == (0, 0)
        assert type(connection) is psycopg.Connection
        assert connection.cursor_factory is psycopg.Cursor


def test_it_goes_with_cursors_and_connections_of_ones_own(
    empty_dsn: str, count: Any
) -> None:
    """A user's classes, also those made of one that counts, count once."""

    class Mine(psycopg.ClientCursor[Any]):
        def execute(self, query: Any, *args: Any, loud: bool = False, **kw: Any) -> Any:
            self.loud = loud
            return super().execute(query, *args, **kw)

    base: Any = instrument.psycopg(meter=count.meter)

    class Own(base):
        pass

    again = instrument.psycopg(Own, meter=count.meter)
    with again.connect(empty_dsn, cursor_factory=Mine) as connection:
        cursor = connection.cursor()
        assert isinstance(cursor, Mine)
        cursor.execute("select generate_series(1, 3)", loud=True)
        assert cursor.loud
        assert count() == (1, 3)
        connection.execute("select %s", [1])
        connection.commit()
        assert count() == (2, 1)


def test_it_goes_with_a_deadline_within_the_client(empty_dsn: str, count: Any) -> None:
    """The statement counts, what the deadline sends along does not."""
    kind = instrument.psycopg(deadline_client.Connection, meter=count.meter)
    with kind.connect(empty_dsn, autocommit=True) as connection:
        with deadline.within(10):
            connection.execute("select generate_series(1, 3)")
        assert count() == (1, 3)
        with pytest.raises(deadline.DeadlineExceeded), deadline.within(0.1):
            connection.execute("select pg_sleep(30)")
        assert count() == (1, 0)
        assert 0.05 < count.seconds < 10


def test_a_pool_counts_with_what_it_has_and_will_have(
    empty_dsn: str, count: Any
) -> None:
    """And stops for both."""
    settings = {"autocommit": True}
    with ConnectionPool(
        empty_dsn, min_size=1, max_size=2, kwargs=settings, open=True
    ) as pool:
        pool.wait()
        assert instrument.psycopg(pool, meter=count.meter) is pool
        with pool.connection() as there, pool.connection() as made:
            there.execute("select 1")
            made.execute("select 1")
        done = count()
        # Giving a connection back commits: what it has it also counts.
        assert done[1] == 2
        assert done[0] >= 2
        instrument.uninstall(pool)
        with pool.connection() as there:
            there.execute("select 1")
        assert count() == (0, 0)
        assert pool.connection_class is psycopg.Connection


@pytest.mark.parametrize("target", [7, "main", object, psycopg])
def test_what_is_no_client_is_refused(target: Any, count: Any) -> None:
    """The error says what is allowed."""
    with pytest.raises(Misconfigured, match="a connection or a pool"):
        instrument.psycopg(target, meter=count.meter)


def test_a_factory_that_is_no_class_is_refused(
    connection: Connection, count: Any
) -> None:
    """What it makes could not be counted."""
    with pytest.raises(Misconfigured, match="must be a class"):
        connection.cursor_factory = lambda *_: None  # type: ignore[assignment]


def test_what_is_no_target_cannot_be_let_go() -> None:
    """Nothing was installed there."""
    with pytest.raises(Misconfigured, match="nothing was installed"):
        instrument.uninstall(7)
