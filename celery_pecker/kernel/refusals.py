"""What PostgreSQL refuses, sorted, and in words that say what to do."""

from psycopg import errors

from celery_pecker.kernel.errors import Misconfigured, SchemaOutdated

LOST_RACES = (errors.SerializationFailure, errors.DeadlockDetected)
RACES = {"claim_due", "reclaim_pending", "take_requested_runs"}
"""Where a serialization failure is a lost race: an empty answer, no error."""
MISSING = (errors.UndefinedTable, errors.UndefinedColumn, errors.InvalidSchemaName)
REFUSALS = (
    errors.InvalidPassword,
    errors.InvalidAuthorizationSpecification,
    errors.InvalidCatalogName,
)
MIGRATE = "run `celery -A proj pecker migrate` (or --sql for your DBA)"


def missing(schema: str, where: str) -> SchemaOutdated:
    """Return the error for tables that are not there."""
    return SchemaOutdated(
        f"the tables of celery-pecker are not in schema {schema!r} of {where}:"
        f" {MIGRATE}"
    )


def unreleased(schema: str, version: int, first: int) -> SchemaOutdated:
    """Return the error for tables of a step that only development versions had."""
    return SchemaOutdated(
        f"schema {schema!r} is at step {version}, which no release has, and this"
        f" celery-pecker needs {first}: drop its tables, or bring them to step {first}"
        f" by the last development version that had step {version}; then {MIGRATE}"
    )


def refused(where: str, error: Exception) -> Misconfigured:
    """Return the error for a connection that the server refuses."""
    return Misconfigured(
        f"pecker_dsn is refused by {where}: {_line(error)}; give it a database,"
        " a user and a password that the server knows"
    )


def no_right(label: str, schema: str, error: Exception) -> Misconfigured:
    """Return the error for a statement that the role may not run."""
    return Misconfigured(
        f"the role of pecker_dsn may not run {label} ({_line(error)}); it needs"
        " select, insert, update and delete on the pecker_* tables of schema"
        f" {schema!r}, or what docs/how-to/rights-and-migrations.md lists for less"
    )


def foreign(schema: str, owner: str, app: str) -> Misconfigured:
    """Return the error for what an app would do in the schema of another one."""
    return Misconfigured(
        f"schema {schema!r} belongs to the app {owner!r}, and this is {app!r}; allowed"
        f" is a pecker_schema of its own, or pecker_app = {owner!r}"
    )


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


def is_refusal(text: str) -> bool:
    """Return whether it is a refusal, not an absence: psycopg has no SQLSTATE then."""
    if "no password supplied" in text:  # libpq's own word, before the server's
        return True
    return "FATAL:" in text and any(
        mark in text
        for mark in (
            "password authentication failed",
            "pg_hba.conf",
            "does not exist",
            "is not permitted to log in",
        )
    )
