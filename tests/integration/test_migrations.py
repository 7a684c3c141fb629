"""The schema on a real PostgreSQL: taken, taken again, taken by a DBA, outgrown."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from celery import Celery
from psycopg import sql
from psycopg.conninfo import make_conninfo

from celery_pecker.kernel import migrations
from celery_pecker.kernel.clock import new_id
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import Misconfigured, PeckerError, SchemaOutdated
from celery_pecker.kernel.migrations import FIRST, LATEST, check, migrate, script
from celery_pecker.kernel.sql import Migration
from celery_pecker.kernel.sql import migrations as line
from celery_pecker.schedules.engine.repository import Repository
from celery_pecker.testing.manual import ManualPecker

ODD = ['The "best" a-b.c d', "select", "ünïcode"]
DML = "select, insert, update, delete"


def run(dsn: str, *statements: str) -> list[tuple[Any, ...]]:
    """Run statements as a DBA would; return the rows of the last one."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def catalog(dsn: str, schema: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return all that PostgreSQL knows of the tables in a schema."""
    asked = {
        "tables": "select relname, relkind, reloptions, obj_description(oid)"
        " from pg_class where relnamespace = {schema}::regnamespace and relkind <> 't'"
        " order by 1",
        "columns": "select attrelid::regclass::text, attname, atttypid::regtype::text,"
        " attnotnull, attnum, col_description(attrelid, attnum),"
        " pg_get_expr(adbin, adrelid) from pg_attribute join pg_class on"
        " pg_class.oid = attrelid left join pg_attrdef on adrelid = attrelid and"
        " adnum = attnum where relnamespace = {schema}::regnamespace and attnum > 0"
        " order by 1, 5",
        "constraints": "select conrelid::regclass::text, conname,"
        " pg_get_constraintdef(oid) from pg_constraint"
        " where connamespace = {schema}::regnamespace order by 1, 2",
    }
    with psycopg.connect(dsn) as connection:
        quoted = sql.Literal(sql.Identifier(schema).as_string(connection))
        connection.execute(
            sql.SQL("set search_path to {}").format(sql.Identifier(schema))
        )
        found: dict[str, list[tuple[Any, ...]]] = {
            what: connection.execute(sql.SQL(text).format(schema=quoted)).fetchall()
            for what, text in asked.items()
        }
        found["steps"] = connection.execute(
            "select version, name, readable_from from pecker_migrations order by 1"
        ).fetchall()
    return found


@pytest.fixture
def database(dsn: str) -> Iterator[Database]:
    """Give the seam to a migrated database."""
    found = Database(dsn, schema="public", timeout=5.0)
    yield found
    found.close()


def app(**entry: object) -> Celery:
    """Return an app with one entry."""
    made = Celery("test", set_as_current=False)
    made.conf.update(
        beat_schedule={"sweep": {"task": "t", "schedule": 1.0, **entry}},
    )
    return made


def step(version: int, text: str, *, readable_from: int = 1) -> Migration:
    """Return a step that a later version might bring."""
    return Migration(version, f"step{version}", readable_from, text)


LATER = (
    step(LATEST + 1, "create table {schema}.later ();"),
    step(LATEST + 2, "alter table {schema}.later add column note text;"),
)


# Forward


def test_from_nothing_all_steps_are_taken_and_then_none(empty_dsn: str) -> None:
    """Running it again is what every deploy does."""
    assert migrate(empty_dsn, schema="public") == [*line()]
    before = catalog(empty_dsn, "public")
    assert migrate(empty_dsn, schema="public") == []
    assert catalog(empty_dsn, "public") == before
    assert [version for version, *_ in before["steps"]] == [
        one.version for one in line()
    ]


@pytest.mark.parametrize("schema", ["public", "elsewhere"])
def test_two_at_once_take_each_step_once(empty_dsn: str, schema: str) -> None:
    """Two pods of one deploy: neither fails, also where the schema is to be made."""
    steps = [*line(), *LATER]
    meet, taken, failed = threading.Barrier(6, timeout=30), [], []

    def compete() -> None:
        meet.wait()
        try:
            taken.extend(migrate(empty_dsn, schema=schema, steps=steps))
        except PeckerError as error:
            failed.append(error)

    threads = [threading.Thread(target=compete) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failed == []
    assert sorted(taken) == steps, "each by one of them, in whatever order"


def test_a_serializable_default_does_not_make_them_meet(empty_dsn: str) -> None:
    """A snapshot from before the lock would not see what the first one did."""
    strict = make_conninfo(
        empty_dsn, options="-c default_transaction_isolation=serializable"
    )
    meet, failed = threading.Barrier(4, timeout=30), []

    def compete() -> None:
        meet.wait()
        try:
            migrate(strict, schema="public", steps=[*line(), *LATER])
        except PeckerError as error:
            failed.append(error)

    threads = [threading.Thread(target=compete) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failed == []


@pytest.mark.parametrize("schema", ODD)
def test_any_name_of_a_schema_will_do(empty_dsn: str, schema: str) -> None:
    """Quotes, capitals, dashes, spaces, words of SQL: two of them side by side."""
    migrate(empty_dsn, schema=schema)
    with ManualPecker(app(), dsn=empty_dsn, schema=schema) as pecker:
        assert len(pecker.pass_time(3.5)) == 3
    migrate(empty_dsn, schema="other")
    assert run(empty_dsn, "select * from other.pecker_tasks") == []


@pytest.fixture
def further(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the line of steps go on, as that of a later version does."""
    monkeypatch.setattr(migrations, "migrations", lambda: (*line(), *LATER))


@pytest.mark.usefixtures("further")
@pytest.mark.parametrize("schema", ["public", "elsewhere", 'the "best"'])
def test_the_script_for_a_dba_makes_the_same_tables(
    empty_dsn: str, schema: str
) -> None:
    """Statement for statement what `migrate` does, in psql or any other client."""
    text = script(schema)
    run(empty_dsn, text)
    by_hand = catalog(empty_dsn, schema)
    assert migrate(empty_dsn, schema=schema) == []
    quoted = sql.Identifier(schema).as_string(None)
    run(empty_dsn, f"drop schema {quoted} cascade")
    migrate(empty_dsn, schema=schema)
    assert catalog(empty_dsn, schema) == by_hand
    assert len(by_hand["tables"]) >= 6


@pytest.mark.usefixtures("further")
def test_the_script_leaves_out_what_was_taken(dsn: str) -> None:
    """It goes on from any step; `--after` the last one there is nothing to do."""
    run(dsn, script("public", after=LATEST))
    assert migrate(dsn, schema="public") == []
    rest = script("public", after=LATER[0].version)
    assert "add column note" in rest
    assert "create table" not in rest
    rest = script("public", after=LATER[1].version)
    assert [text for text in rest.splitlines() if not text.startswith("--")] == []


def test_a_step_that_fails_leaves_nothing_of_itself(empty_dsn: str) -> None:
    """One transaction each; the steps before it stay, and it can be tried again."""
    broken = step(LATEST + 1, "create table {schema}.half (); select 1 / 0")
    with pytest.raises(PeckerError, match="division by zero") as caught:
        migrate(empty_dsn, schema="public", steps=[*line(), broken])
    assert "pecker_dsn" in str(caught.value)
    assert run(empty_dsn, "select to_regclass('half')") == [(None,)]
    mended = step(LATEST + 1, "create table {schema}.half ()")
    assert migrate(empty_dsn, schema="public", steps=[*line(), mended]) == [mended]


def test_a_step_does_not_queue_behind_a_long_reader(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives up: every claim would wait behind its lock."""
    monkeypatch.setattr(migrations, "LOCK_TIMEOUT", "50ms")
    alter = step(LATEST + 1, "alter table {schema}.pecker_tasks add column x integer")
    with psycopg.connect(dsn) as reader:
        reader.execute("select * from pecker_tasks")
        with pytest.raises(PeckerError, match="lock timeout"):
            migrate(dsn, schema="public", steps=[*line(), alter])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dbname": "nowhere_at_all"}, "nowhere_at_all"),
        ({"user": "nobody_known"}, "nobody_known"),
        ({"host": "127.0.0.1", "port": "1"}, "refused"),
    ],
)
def test_a_server_that_refuses_is_one_line(
    dsn: str, change: dict[str, Any], said: str
) -> None:
    """No traceback of a driver."""
    wrong = make_conninfo(dsn, **change)
    with pytest.raises(PeckerError, match=f"pecker_dsn.*{said}"):
        migrate(wrong, schema="public")


# Older and newer tables


def test_tables_at_the_first_step_go_on_untouched(database: Database, dsn: str) -> None:
    """Also where the step had the name that it had in development."""
    run(dsn, "update pecker_migrations set name = 'undo'")
    before = catalog(dsn, "public")
    assert migrate(dsn, schema="public") == []
    check(database)
    assert catalog(dsn, "public") == before


def test_tables_of_a_development_version_are_refused_with_what_to_do(
    database: Database, dsn: str
) -> None:
    """Steps before the first are in it: taking it would fail at their tables."""
    run(dsn, f"update pecker_migrations set version = {FIRST - 1}")  # noqa: S608
    before = catalog(dsn, "public")
    asked = (
        lambda: check(database),
        lambda: migrate(dsn, schema="public"),
        lambda: script("public", after=FIRST - 1),
    )
    for ask in asked:
        with pytest.raises(SchemaOutdated, match="'public'") as caught:
            ask()
        said = str(caught.value)
        assert f"at step {FIRST - 1}, which no release has" in said
        assert f"needs {FIRST}: drop its tables, or" in said
        assert "celery -A proj pecker migrate" in said
    assert catalog(dsn, "public") == before


def test_tables_without_a_step_are_refused_with_the_command_to_run(
    database: Database, dsn: str
) -> None:
    """Somebody emptied the table of steps."""
    run(dsn, "delete from pecker_migrations")
    with pytest.raises(SchemaOutdated, match="celery -A proj pecker migrate") as caught:
        check(database)
    assert "'public'" in str(caught.value)


def test_a_step_behind_is_refused_by_its_number(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As seen by code that was written for the next step."""
    monkeypatch.setattr(migrations, "LATEST", LATEST + 1)
    with pytest.raises(SchemaOutdated, match="pecker migrate") as caught:
        check(database)
    assert f"at step {LATEST} ({line()[-1].name})" in str(caught.value)
    assert f"needs {LATEST + 1}" in str(caught.value)


def test_newer_tables_that_we_can_read_are_lived_with(
    database: Database, dsn: str
) -> None:
    """Replicas of the version before go on under a forward migration."""
    newer = step(LATEST + 3, "create table {schema}.later ()", readable_from=LATEST)
    migrate(dsn, schema="public", steps=[*line(), newer])
    check(database)
    assert migrate(dsn, schema="public") == []


def test_newer_tables_that_we_cannot_read_are_refused_by_name(
    database: Database, dsn: str
) -> None:
    """An old replica must not write what it does not understand."""
    newer = step(LATEST + 3, "select 1", readable_from=LATEST + 2)
    migrate(dsn, schema="public", steps=[*line(), newer])
    with pytest.raises(Misconfigured) as caught:
        check(database)
    said = str(caught.value)
    assert not isinstance(caught.value, SchemaOutdated), "migrating would not help"
    for word in ("'public'", f"step {LATEST + 3} (step{LATEST + 3})", "newer version"):
        assert word in said
    assert f"knows step {LATEST + 2}; this one knows {LATEST}" in said


@pytest.mark.parametrize(
    "text",
    [
        "alter table {schema}.pecker_tasks add column note text not null default 'x'",
        "alter table {schema}.pecker_pending add column note text",
        "create index on {schema}.pecker_declarations (declared_until)",
    ],
)
def test_a_forward_step_under_a_running_replica_costs_no_slot(
    dsn: str, text: str
) -> None:
    """It claims, is migrated under its feet, and goes on over the same connection."""
    schedule = {"delivery": "at_least_once"}
    with ManualPecker(app(pecker=schedule), dsn=dsn) as pecker:
        assert len(pecker.pass_time(2.5)) == 2
        migrate(dsn, schema="public", steps=[*line(), step(LATEST + 1, text)])
        assert len(pecker.pass_time(7)) == 7
        assert run(dsn, "select * from pecker_pending") == []
    assert run(dsn, "select missed from pecker_tasks") == [(0,)]


# Rights


@pytest.fixture
def worker_dsn(dsn: str) -> Iterator[str]:
    """Give the address for a role that may read and write rows, and nothing else."""
    role = f"pecker_test_{new_id().hex[:8]}"
    secret = "s3cret"  # noqa: S105  # of a role that lives for a second
    run(
        dsn,
        "revoke all on schema public from public",
        f"create role {role} login password '{secret}'",
        f"grant usage on schema public to {role}",
        f"grant {DML} on all tables in schema public to {role}",
    )
    yield make_conninfo(dsn, user=role, password=secret)
    run(dsn, f"drop owned by {role}", f"drop role {role}")


def test_run_time_needs_no_rights_beyond_the_rows(worker_dsn: str) -> None:
    """The DBA migrates; schedulers only read and write rows."""
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        run(worker_dsn, "create table public.mine ()")
    with ManualPecker(app(pecker={"delivery": "at_least_once"}), dsn=worker_dsn) as one:
        assert len(one.pass_time(12.5)) == 12


def test_without_the_rows_it_says_which_rights_it_needs(
    worker_dsn: str, dsn: str
) -> None:
    """By the statement that failed, and the schema."""
    run(dsn, f"revoke {DML} on pecker_tasks from {user(worker_dsn)}")
    database = Database(worker_dsn, schema="public", timeout=5.0)
    with closing(database), pytest.raises(Misconfigured) as caught:
        Repository(database, new_id()).enroll(["sweep"])
    said = str(caught.value)
    for word in (
        "pecker_dsn",
        "celery_pecker:enroll",
        "select, insert, update",
        "'public'",
    ):
        assert word in said
    assert "s3cret" not in said


def user(dsn: str) -> str:
    """Return the role of an address."""
    return str(psycopg.conninfo.conninfo_to_dict(dsn)["user"])


def test_without_rights_on_the_schema_migrate_says_so(worker_dsn: str) -> None:
    """One line, with what PostgreSQL said."""
    with pytest.raises(PeckerError, match="permission denied"):
        migrate(worker_dsn, schema="elsewhere")
