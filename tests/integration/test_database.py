"""The seam to PostgreSQL: bounded waits, named errors, nothing left in the session."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from celery_pecker.kernel.clock import SYSTEM, new_id
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import (
    DatabaseUnavailable,
    Misconfigured,
    PeckerError,
    SchemaOutdated,
    TooManyRows,
)
from celery_pecker.kernel.schema_check import check_schema
from celery_pecker.schedules.engine.repository import Repository
from celery_pecker.testing import EmbeddedPostgres, eventually, free_port
from celery_pecker.testing.manual import ManualPecker, entries_of
from tests.integration.test_migrations import app, run

Make = Callable[..., Database]


@pytest.fixture
def make() -> Iterator[Make]:
    """Give a way to make seams that are closed at the end."""
    with ExitStack() as stack:

        def seam(dsn: str, timeout: float = 5.0, **more: Any) -> Database:
            found = Database(dsn, schema="public", timeout=timeout, **more)
            stack.callback(found.close)
            return found

        yield seam


def read(database: Database) -> Sequence[tuple[Any, ...]]:
    """Run the cheapest statement."""
    return database.run("read_tasks", names=[], now=None)


def backend(database: Database) -> int:
    """Return the process on the server's side."""
    return database._connected().info.backend_pid


# Connecting


def test_nothing_is_connected_before_it_is_needed(make: Make) -> None:
    """Never before a fork, and not to look at the configuration."""
    database = make(f"host=127.0.0.1 port={free_port()} dbname=x")
    assert not database.connected
    with pytest.raises(DatabaseUnavailable, match="celery_pecker:read_tasks"):
        read(database)
    database.close()


def test_of_several_hosts_the_one_that_answers_is_used(dsn: str, make: Make) -> None:
    """The addresses of a cluster, of which one is down."""
    given = psycopg.conninfo.conninfo_to_dict(dsn)
    both = make_conninfo(
        dsn,
        host=f"127.0.0.1,{given['host']}",
        port=f"{free_port()},{given['port']}",
        target_session_attrs="read-write",
    )
    assert len(read(make(both))) == 1


@pytest.mark.parametrize(
    ("named", "expected"),
    [({}, "celery_pecker:scheduler"), ({"application_name": "mine"}, "mine")],
)
def test_it_has_a_name_among_the_server_s_sessions(
    dsn: str, make: Make, named: dict[str, Any], expected: str
) -> None:
    """Ours, unless the DSN names one."""
    database = make(make_conninfo(dsn, **named))
    read(database)
    name = run(
        dsn,
        "select pid, application_name from pg_stat_activity",
    )
    assert (backend(database), expected) in name


def test_one_connection_serves_all_and_comes_back_after_a_close(
    dsn: str, make: Make
) -> None:
    """One per scheduler: the budget of connections is easy to tell."""
    database = make(dsn)
    pids = set()
    for _ in range(5):
        read(database)
        pids.add(backend(database))
    assert len(pids) == 1
    database.close()
    database.close()
    assert not database.connected
    read(database)
    assert backend(database) not in pids


# Statements


def test_a_label_is_what_the_server_shows_of_a_statement(dsn: str, make: Make) -> None:
    """Its first words, in `pg_stat_activity`, while it waits for a lock."""
    database = make(dsn, timeout=1.0)
    seen: list[Any] = []
    with psycopg.connect(dsn) as blocker:
        blocker.execute("lock table pecker_tasks in access exclusive mode")
        with pytest.raises(DatabaseUnavailable, match="celery_pecker:read_tasks"):
            read(database)
        seen = eventually(
            lambda: run(
                dsn,
                "select query from pg_stat_activity where wait_event_type = 'Lock'"
                " and application_name = 'celery_pecker:scheduler'",
            )
        )
    assert seen[0][0].startswith("/* celery_pecker:read_tasks */")


def test_nothing_is_prepared_and_nothing_set_in_the_session(
    dsn: str, make: Make
) -> None:
    """A transaction pooler may give each statement to another session."""
    probe = make(dsn)
    with closing(psycopg.connect(dsn, autocommit=True)) as plain:
        settings = (
            "select name, setting from pg_settings where name <> 'application_name'"
        )
        expected = plain.execute(settings).fetchall()
    with ManualPecker(app(pecker={"delivery": "at_least_once"}), dsn=dsn) as pecker:
        pecker.pass_time(20)
        session = pecker._database._connected()
        for _ in range(20):
            read(pecker._database)
        assert session.execute("select * from pg_prepared_statements").fetchall() == []
        assert session.execute("select * from pg_listening_channels()").fetchall() == []
        locks = "select * from pg_locks where locktype = 'advisory'"
        assert session.execute(locks).fetchall() == []
        assert session.execute(settings).fetchall() == expected
        assert session.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    assert len(read(probe)) == 1


def test_changing_one_row_tells_none_from_many(dsn: str, make: Make) -> None:
    """None: another holder has it. More: a bug, not a race (I3)."""
    database = make(dsn)
    database.change("enroll", names=["a", "b"], now=None)
    assert database.change_one("count_missed", names=["a"], slots=[1])
    assert not database.change_one("count_missed", names=["gone"], slots=[1])
    with pytest.raises(TooManyRows, match="count_missed changed 2 rows instead of one"):
        database.change_one("count_missed", names=["a", "b"], slots=[1, 1])


def test_the_row_of_a_write_is_one_or_none(dsn: str, make: Make) -> None:
    """A claim of one row whose statement answers with two is a bug as well (I3)."""
    database = make(dsn)
    database.change("enroll", names=["a", "b"], now=None)
    with pytest.raises(TooManyRows, match="read_tasks changed 2 rows instead of one"):
        database.run_one("read_tasks", names=["a", "b"], now=None)
    row = database.run_one("read_tasks", names=["a"], now=None)
    assert row is not None
    assert row[1] == "a"
    assert database.run_one("read_orphans", lease=0.0, now=None) is None


@pytest.mark.parametrize("sqlstate", ["40001", "40P01"])
def test_a_lost_race_is_an_empty_answer(dsn: str, make: Make, sqlstate: str) -> None:
    """A serialization failure and a deadlock: somebody else has it (I4)."""
    database = make(dsn)
    run(
        dsn,
        "create function lose() returns trigger language plpgsql as"
        f" $$begin raise exception 'lost' using errcode = '{sqlstate}'; end$$",
        "create trigger lose before update on pecker_tasks execute function lose()",
    )
    repository = Repository(database, new_id())
    assert repository.claim([], until_us=4 * 10**15) == (None, [])
    assert database.connected


# Missing things


def test_missing_tables_are_told_with_the_command_that_makes_them(
    empty_dsn: str, make: Make
) -> None:
    """Schema, database, command; no password."""
    secret = password_of(empty_dsn)
    with pytest.raises(SchemaOutdated) as caught:
        read(make(make_conninfo(empty_dsn, password=secret)))
    said = str(caught.value)
    for word in ("'public'", "celery -A proj pecker migrate", "127.0.0.1"):
        assert word in said
    assert secret not in said


def password_of(dsn: str) -> str:
    """Return the password of an address; any where none is asked for."""
    return str(conninfo_to_dict(dsn).get("password", "s3cret"))


@pytest.mark.parametrize(
    ("change", "named"),
    [({"dbname": "nowhere_at_all"}, "nowhere_at_all"), ({"user": "who"}, '"who"')],
)
def test_a_database_or_role_that_is_not_there_is_bad_configuration(
    dsn: str, make: Make, change: dict[str, Any], named: str
) -> None:
    """No use in trying again; what the server said is told, the password is not."""
    secret = password_of(dsn)
    with pytest.raises(Misconfigured, match="pecker_dsn is refused by") as caught:
        read(make(make_conninfo(dsn, password=secret, **change)))
    assert named in str(caught.value)
    assert secret not in str(caught.value)


@pytest.fixture
def asked_dsn(own_postgres: Callable[..., EmbeddedPostgres]) -> str:
    """Give an address at which a password is asked for; the right one is 'r1ght'."""
    server = own_postgres(fast=True, migrated=True)
    run(server.dsn, "create role asked login superuser password 'r1ght'")
    return f"host=127.0.0.1 port={server.port} user=asked dbname=postgres"


def test_a_wrong_password_is_bad_configuration(asked_dsn: str, make: Make) -> None:
    """With the right one it works; the wrong one is not told."""
    right, wrong = (
        make_conninfo(asked_dsn, password=word) for word in ("r1ght", "wr0ng")
    )
    with pytest.raises(Misconfigured, match="pecker_dsn is refused by") as caught:
        read(make(wrong))
    assert '"asked"' in str(caught.value)
    assert "wr0ng" not in str(caught.value)
    assert len(read(make(right))) == 1


def test_no_password_is_bad_configuration(asked_dsn: str, make: Make) -> None:
    """The commonest of all mistakes with a DSN: it would be tried again for ever."""
    with pytest.raises(Misconfigured, match="no password supplied"):
        read(make(asked_dsn))


UNPARSABLE = [
    "my database",
    "postgresql://pecker:s3cret@[::1/db",
    "postgresql://pecker:s3%zzcret@db/app",
    "postgresql://pecker:my s3cret@db/app",
    "host=db password=my s3cret",
    "host=db passwort=s3cret",
]


@pytest.mark.parametrize("dsn", UNPARSABLE)
def test_what_is_no_connection_string_is_refused(dsn: str) -> None:
    """Setting, and what is allowed."""
    with pytest.raises(Misconfigured, match="pecker_dsn is not a PostgreSQL") as caught:
        Database(dsn, schema="public", timeout=2.0)
    assert "postgresql://user@host/database" in str(caught.value)


@pytest.mark.parametrize("dsn", UNPARSABLE)
def test_what_is_no_connection_string_is_not_shown(dsn: str) -> None:
    """What libpq could not read it quotes, and that may be the password."""
    with pytest.raises(Misconfigured) as caught:
        Database(dsn, schema="public", timeout=2.0)
    assert "cret" not in str(caught.value)


def test_a_url_of_sqlalchemy_is_told_what_to_leave_out() -> None:
    """It looks right: it is what the app's models are reached by."""
    with pytest.raises(Misconfigured, match=r"SQLAlchemy's '\+driver'"):
        Database("postgresql+psycopg://me:s3cret@db/app", schema="public", timeout=2.0)


# Absences


def test_a_terminated_backend_is_an_absence_and_the_next_statement_reconnects(
    dsn: str, make: Make
) -> None:
    """In the middle of a claim; the slot is not lost."""
    database = make(dsn)
    read(database)
    gone = backend(database)
    run(dsn, f"select pg_terminate_backend({gone}, 5000)")
    with pytest.raises(DatabaseUnavailable, match="read_tasks got no answer") as caught:
        read(database)
    assert "127.0.0.1" in str(caught.value)
    assert not database.connected
    read(database)
    assert backend(database) != gone


def test_a_replica_whose_backend_is_terminated_loses_no_slot(dsn: str) -> None:
    """It fails one step, and the next one claims what was due."""
    with ManualPecker(app(), dsn=dsn) as pecker:
        pecker.pass_time(2.5)
        run(dsn, f"select pg_terminate_backend({backend(pecker._database)}, 5000)")
        pecker.clock.advance_us(1_000_000)
        with pytest.raises(DatabaseUnavailable):
            pecker.turn()
        pecker.clock.advance_us(50_000)
        assert len(pecker.turn()) == 1
    assert run(dsn, "select missed from pecker_tasks") == [(0,)]


def test_a_frozen_server_costs_the_timeout_and_no_more(
    own_postgres: Callable[..., EmbeddedPostgres], make: Make
) -> None:
    """In a statement (its own timeout) and at connect (libpq's least: two seconds)."""
    server = own_postgres(fast=True, migrated=True)
    database, fresh = make(server.dsn, timeout=0.3), make(server.dsn, timeout=0.3)
    read(database)
    server.freeze()
    for seam, label, bound in ((database, "statement", 0.3), (fresh, "connect", 2.0)):
        began = SYSTEM.monotonic()
        with pytest.raises(DatabaseUnavailable):
            read(seam)
        assert bound <= SYSTEM.monotonic() - began < bound + 20.0, label
        assert not seam.connected
    server.thaw()
    read(database)


def test_a_server_that_accepts_and_never_answers_is_an_absence(make: Make) -> None:
    """Something else listens on the port, or a proxy whose server is gone."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        database = make(f"host=127.0.0.1 port={port} dbname=x", timeout=0.5)
        with pytest.raises(DatabaseUnavailable, match="got no answer from x at 127"):
            read(database)


def test_a_server_without_a_free_connection_is_an_absence(dsn: str, make: Make) -> None:
    """It is full now; that is no reason to give up."""
    role = f"pecker_test_{new_id().hex[:8]}"
    made = f"create role {role} login connection limit 0"
    run(dsn, f"{made} password '{password_of(dsn)}'")
    try:
        with pytest.raises(DatabaseUnavailable, match="too many connections"):
            read(make(make_conninfo(dsn, user=role)))
    finally:
        run(dsn, f"drop role {role}")


def test_a_server_that_takes_no_writes_is_an_absence(dsn: str, make: Make) -> None:
    """A primary that was demoted: it may be promoted, or the DSN name another host.

    The connection is dropped, or it would stay with the one that cannot be written to.
    """
    database = make(make_conninfo(dsn, options="-c default_transaction_read_only=on"))
    read(database)
    with pytest.raises(PeckerError) as caught:
        check_schema(database, app="test")
    assert isinstance(caught.value, DatabaseUnavailable)
    assert "read-only" in str(caught.value)
    assert not database.connected


def test_a_replica_goes_on_where_a_demoted_primary_is_promoted_again(dsn: str) -> None:
    """Its steps fail as long as it cannot write, and then it claims."""
    with ManualPecker(app(), dsn=dsn) as pecker:
        name = psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]
        switch = f'alter database "{name}" set default_transaction_read_only = '
        pecker._database.close()
        run(dsn, f"{switch}on")
        pecker.clock.advance_us(1_000_000)
        with pytest.raises(DatabaseUnavailable):
            pecker.turn()
        run(dsn, "set default_transaction_read_only = off", f"{switch}off")
        pecker.clock.advance_us(100_000)
        assert len(pecker.turn()) == 1


def test_entries_are_read_without_a_database() -> None:
    """What can be checked without I/O is checked without it."""
    assert [one.name for one in entries_of(app())] == ["sweep"]
