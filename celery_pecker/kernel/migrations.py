"""The schema's one numbered line of steps, taken forward only.

Each step is one transaction and says from which schema number on code can live with
the tables after it (``readable from``), so that replicas of the version before go on
under a forward migration, and code older than that is refused by name.
"""

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql

from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import (
    DatabaseUnavailable,
    Misconfigured,
    PeckerError,
    SchemaOutdated,
)
from celery_pecker.kernel.hosts import BoundedConnection
from celery_pecker.kernel.refusals import MIGRATE, unreleased
from celery_pecker.kernel.sql import Migration, migrations, render, statements

FIRST = migrations()[0].version
"""The step that makes all tables: those before it were folded into it, and were never
released."""
LATEST = migrations()[-1].version
"""The schema number that this code was written for."""

CONNECT_TIMEOUT = 10
"""Seconds."""
LOCK_TIMEOUT = "5s"
"""A step must not queue behind a long reader and hold up every claim behind it."""


class MigrationFailed(PeckerError):
    """A step of the schema could not be taken; the steps before it stay."""


def migrate(
    dsn: str, *, schema: str, steps: Sequence[Migration] | None = None
) -> list[Migration]:
    """Take the steps that the schema lacks; return them. Safe to run twice at once."""
    steps = migrations() if steps is None else steps
    Database(dsn, schema=schema, timeout=CONNECT_TIMEOUT)  # refuses what is no DSN
    try:
        bounded = BoundedConnection.within(dsn, CONNECT_TIMEOUT, autocommit=True)
        with bounded as connection:
            # A snapshot from before the lock would not see what its holder did.
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            return [step for step in steps if _take(connection, schema, step)]
    except psycopg.Error as error:
        message = (
            f"pecker_dsn: the tables in schema {schema!r} could not be brought up to"
            f" date: {' '.join(str(error).split())}"
        )
        if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
            raise DatabaseUnavailable(message) from error
        raise MigrationFailed(message) from error


def _take(
    connection: psycopg.Connection[tuple[Any, ...]], schema: str, step: Migration
) -> bool:
    """Take a step in one transaction; whether it was still to be taken."""
    with connection.transaction():
        connection.execute(
            sql.SQL("set local lock_timeout = {}").format(sql.Literal(LOCK_TIMEOUT))
        )
        # One migrator at a time; released at commit.
        connection.execute(
            "select pg_advisory_xact_lock(hashtext(%s))", [f"celery_pecker:{schema}"]
        )
        taken = _taken(connection, schema)
        if step.version in taken:
            return False
        if taken and max(taken) < FIRST:
            raise unreleased(schema, max(taken), FIRST)
        if not _exists(connection, schema):
            connection.execute(
                sql.SQL("create schema {}").format(sql.Identifier(schema))
            )
        connection.execute(render(step.text.replace("%", "%%"), schema), [])
        connection.execute(
            render(statements()["record_migration"], schema), step._asdict()
        )
    return True


def script(schema: str, *, after: int = 0) -> str:
    """Return the steps after a number as one SQL script, for a DBA to run."""
    if 0 < after < FIRST:
        raise unreleased(schema, after, FIRST)
    parts = [f"-- celery-pecker: schema {schema!r}, from {after} to {LATEST}"]
    if not after:
        parts.append(render("create schema if not exists {schema};", schema))
    for step in migrations():
        if step.version > after:
            parts += [
                "begin;",
                render(step.text, schema),
                render(
                    "insert into {schema}.pecker_migrations"
                    " (version, name, readable_from) values",
                    schema,
                )
                + f" ({step.version}, '{step.name}', {step.readable_from});",
                "commit;",
            ]
    return "\n\n".join(parts) + "\n"


def check(database: Database) -> None:
    """Refuse tables older than this code, or newer than it can live with."""
    rows = database.run("read_schema")
    if not rows:
        raise SchemaOutdated(
            f"schema {database.schema!r} has no migration applied: {MIGRATE}"
        )
    version, readable_from, name = rows[0]
    if version < FIRST:
        raise unreleased(database.schema, version, FIRST)
    if version < LATEST:
        raise SchemaOutdated(
            f"schema {database.schema!r} is at step {version} ({name}), this"
            f" celery-pecker needs {LATEST}: {MIGRATE}"
        )
    if readable_from > LATEST:
        raise Misconfigured(
            f"schema {database.schema!r} is at step {version} ({name}), which needs a"
            f" celery-pecker that knows step {readable_from}; this one knows {LATEST}:"
            " install the newer version"
        )


def _exists(connection: psycopg.Connection, schema: str) -> bool:
    row = connection.execute(
        "select 1 from pg_namespace where nspname = %s", [schema]
    ).fetchone()
    return row is not None


def _taken(connection: psycopg.Connection, schema: str) -> set[int]:
    row = connection.execute(
        "select to_regclass(%s)", [render("{schema}.pecker_migrations", schema)]
    ).fetchone()
    if row is None or row[0] is None:
        return set()
    select = render("select version from {schema}.pecker_migrations", schema)
    return {version for (version,) in connection.execute(select)}
