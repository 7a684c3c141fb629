"""The schema's one numbered line of steps, taken forward only.

Each step is one transaction and says from which schema number on code can live with
the tables after it (``readable from``), so that replicas of the version before go on
under a forward migration, and code older than that is refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
from psycopg import sql

from celery_pecker.database import MIGRATE, Database, render
from celery_pecker.errors import Misconfigured, SchemaOutdated
from celery_pecker.sql import Migration, migrations

LATEST = migrations()[-1].version
"""The schema number that this code was written for."""

LOCK_TIMEOUT = "5s"
"""A step must not queue behind a long reader and hold up every claim behind it."""


def migrate(
    dsn: str, *, schema: str, steps: Sequence[Migration] | None = None
) -> list[Migration]:
    """Take the steps that the schema lacks; return them. Safe to run twice at once."""
    steps = migrations() if steps is None else steps
    taken: list[Migration] = []
    record = render(
        "insert into {schema}.pecker_migrations (version, name, readable_from)"
        " values (%s, %s, %s)",
        schema,
    )
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            sql.SQL("select set_config('lock_timeout', {}, false)").format(LOCK_TIMEOUT)
        )
        if not _exists(connection, schema):
            connection.execute(
                sql.SQL("create schema if not exists {}").format(sql.Identifier(schema))
            )
        for step in steps:
            with connection.transaction():
                # One migrator at a time, whoever they are; released at commit.
                connection.execute(
                    "select pg_advisory_xact_lock(hashtext(%s))",
                    [f"celery_pecker:{schema}"],
                )
                if step.version in _taken(connection, schema):
                    continue
                connection.execute(render(step.text.replace("%", "%%"), schema), [])
                connection.execute(
                    record, [step.version, step.name, step.readable_from]
                )
                taken.append(step)
    return taken


def script(schema: str, *, after: int = 0) -> str:
    """Return the steps after a number as one SQL script, for a DBA to run."""
    parts = [f"-- celery-pecker: schema {schema!r}, from {after} to {LATEST}"]
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
        message = f"schema {database.schema!r} has no migration applied: {MIGRATE}"
        raise SchemaOutdated(message)
    version, readable_from, name = rows[0]
    if version < LATEST:
        message = (
            f"schema {database.schema!r} is at step {version} ({name}), this"
            f" celery-pecker needs {LATEST}: {MIGRATE}"
        )
        raise SchemaOutdated(message)
    if readable_from > LATEST:
        message = (
            f"schema {database.schema!r} is at step {version} ({name}), which needs a"
            f" celery-pecker that knows step {readable_from}; this one knows {LATEST}:"
            " install the newer version"
        )
        raise Misconfigured(message)


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
