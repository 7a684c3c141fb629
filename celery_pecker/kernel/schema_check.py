"""Refuse, at start, a server or schema that a scheduler cannot use."""

from celery_pecker.kernel import migrations
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import (
    DatabaseUnavailable,
    Misconfigured,
    SchemaOutdated,
)
from celery_pecker.kernel.refusals import MIGRATE
from celery_pecker.kernel.sql import render

OLDEST = 140_000
"""date_bin() came with PostgreSQL 14."""


def check_schema(database: Database, *, app: str) -> None:
    """Refuse a server, schema or owner that the scheduler cannot live with.

    A standby is no refusal but an absence: it may be promoted, or the DSN name
    several hosts with ``target_session_attrs=read-write``. The connection is closed
    then, or the next step would find one and go on over it.
    """
    try:
        _look(database, app)
    except BaseException:
        database.close()
        raise


def _look(database: Database, app: str) -> None:
    [(server, isolation, standby, migrated)] = database.run(
        "read_server", migrations=render("{schema}.pecker_migrations", database.schema)
    )
    if server < OLDEST:
        raise Misconfigured(
            f"pecker_dsn: {database.where} is PostgreSQL {server // 10_000};"
            " allowed are 14 and newer"
        )
    if standby:
        raise DatabaseUnavailable(
            f"{database.where} is a standby, which cannot be written to"
        )
    if isolation != "read committed":
        raise Misconfigured(
            f"pecker_dsn: {database.where} has default_transaction_isolation"
            f" {isolation!r}; allowed is 'read committed', in which a lost race is an"
            " empty answer"
        )
    if not migrated:
        raise SchemaOutdated(
            f"the tables of celery-pecker are not in schema {database.schema!r} of"
            f" {database.where} (pecker_schema): {MIGRATE}"
        )
    migrations.check(database)
    rows = database.run("own_schema", app=app)
    if not rows:
        raise DatabaseUnavailable(
            f"{database.where} did not answer which app owns the schema"
        )
    [(owner,)] = rows
    if owner != app:
        raise Misconfigured(
            f"pecker_schema {database.schema!r} of {database.where} belongs to app"
            f" {owner!r}, this app is {app!r}; give each app a schema of its own"
            " (pecker_schema), or set pecker_app if it is the same app renamed"
        )
