"""What a scheduler asks of its server and schema, once per connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from celery_pecker.kernel import schema_check
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import (
    DatabaseUnavailable,
    Misconfigured,
    SchemaOutdated,
)
from celery_pecker.kernel.migrations import migrate
from celery_pecker.kernel.schema_check import check_schema
from tests.integration.test_migrations import run


@pytest.fixture
def database(dsn: str) -> Iterator[Database]:
    """Give the seam to a migrated database."""
    yield from seam(dsn)


def seam(dsn: str, schema: str = "public") -> Iterator[Database]:
    """Give a seam and close it."""
    found = Database(dsn, schema=schema, timeout=5.0)
    yield found
    found.close()


def refused(database: Database, app: str = "shop") -> str:
    """Return what the refusal says."""
    with pytest.raises(Misconfigured) as caught:
        check_schema(database, app=app)
    assert not database.connected, "the next step would go on over it"
    return str(caught.value)


def test_the_first_app_owns_the_schema_and_may_come_again(database: Database) -> None:
    """Every replica, at every connection."""
    check_schema(database, app="shop")
    check_schema(database, app="shop")


def test_a_second_app_on_one_schema_is_refused_and_both_are_named(
    database: Database, dsn: str
) -> None:
    """Entries of one name would share a row; a schema of its own is the way out."""
    check_schema(database, app="shop")
    said = refused(database, app="billing")
    for word in ("pecker_schema 'public'", "'shop'", "'billing'", "pecker_app"):
        assert word in said
    assert run(dsn, "select app from pecker_owner") == [("shop",)]
    migrate(dsn, schema="billing")
    [other] = seam(dsn, "billing")
    check_schema(other, app="billing")
    other.close()


def test_a_server_too_old_is_refused_by_its_version(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a server of today is seen by code that needs one of tomorrow."""
    [(version,)] = database._connected().execute("show server_version_num")
    monkeypatch.setattr(schema_check, "OLDEST", int(version) + 1)
    said = refused(database)
    assert f"PostgreSQL {int(version) // 10_000}; allowed are 14 and newer" in said
    assert said.startswith("pecker_dsn")


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_another_isolation_level_is_refused(dsn: str, level: str) -> None:
    """A lost race would be an error there instead of an empty answer."""
    escaped = level.replace(" ", "\\ ")
    option = f"-c default_transaction_isolation={escaped}"
    [strict] = seam(make_conninfo(dsn, options=option))
    said = refused(strict)
    strict.close()
    for word in ("pecker_dsn", "default_transaction_isolation", repr(level)):
        assert word in said
    assert "allowed is 'read committed'" in said


def test_tables_that_are_not_there_are_told_with_the_command(dsn: str) -> None:
    """Setting, schema, database, command."""
    [elsewhere] = seam(dsn, "elsewhere")
    with pytest.raises(SchemaOutdated) as caught:
        check_schema(elsewhere, app="shop")
    elsewhere.close()
    for word in ("pecker_schema", "'elsewhere'", "celery -A proj pecker migrate"):
        assert word in str(caught.value)


def test_a_standby_is_an_absence_not_a_refusal(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be promoted any moment: the replica waits for that."""
    read = database.run

    def as_standby(label: str, **params: object) -> Any:
        rows = read(label, **params)
        if label == "read_server":
            return [(*row[:2], True, *row[3:]) for row in rows]
        return rows

    monkeypatch.setattr(database, "run", as_standby)
    with pytest.raises(DatabaseUnavailable, match="is a standby"):
        check_schema(database, app="shop")
