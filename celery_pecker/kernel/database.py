"""The seam to PostgreSQL: run a labelled statement, in bounded time.

One connection per holder, made on first use by the thread that uses it (never before
a fork). Autocommit: a statement is a transaction. Nothing is prepared on the server
and nothing is set for the session, so a transaction pooler may stand between.

Every wait is bounded on the client's side, because a server that accepts and never
answers (frozen, or a half-open route) trips neither keepalives nor a server-side
timeout. A connection whose statement timed out is dropped, not reused: what it
did is unknown.
"""

from __future__ import annotations

import math
import os
import re
import select
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from types import MappingProxyType
from typing import Any, LiteralString, Self, TypeVar

import psycopg
from psycopg import capabilities, conninfo, errors, sql
from psycopg.abc import PQGen

from celery_pecker.kernel import hosts
from celery_pecker.kernel.errors import (
    DatabaseUnavailable,
    Misconfigured,
    SchemaOutdated,
    TooManyRows,
)
from celery_pecker.kernel.settings import Settings
from celery_pecker.sql import OURS, statements

Result = TypeVar("Result")

LOST_RACES = (errors.SerializationFailure, errors.DeadlockDetected)
RACES = {"claim_due", "reclaim_pending", "take_asked"}
"""Where a serialization failure is a lost race: an empty answer, no error."""
MISSING = (errors.UndefinedTable, errors.UndefinedColumn, errors.InvalidSchemaName)
REFUSALS = (
    errors.InvalidPassword,
    errors.InvalidAuthorizationSpecification,
    errors.InvalidCatalogName,
)
BEGIN, COMMIT = "begin", "commit"
_SQLALCHEMY = re.compile(r"postgres(ql)?\+\w+://")
"""A URL that names a driver, which libpq does not know."""
MIGRATE = "run `celery -A proj pecker migrate` (or --sql for your DBA)"


LEAST_FOR_CONNECTING = 2.0
"""Seconds for all hosts together, where nobody is in a hurry."""


class Patient(hosts.Connection[tuple[Any, ...]]):
    """A connection that waits no longer than its budget for anything."""

    budget: float | None = None

    @classmethod
    def within(cls, dsn: str, seconds: float, **options: Any) -> Self:
        """Connect within so many seconds, of which each host gets its share."""
        with hosts.within(seconds):
            return cls.connect(dsn, **options)

    def wait(
        self,
        gen: PQGen[Result],
        interval: float = 0.1,
        timeout: float | None = None,
    ) -> Result:
        """Run the protocol generator, within the budget."""
        return super().wait(gen, interval=interval, timeout=timeout or self.budget)


def render(text: str, schema: str) -> LiteralString:
    """Return a statement or migration with its schema named.

    LiteralString is honest: the text comes from our own files, and the schema is
    quoted as an identifier.
    """
    quoted = sql.Identifier(schema).as_string(None)
    return text.replace("{schema}", quoted)


@cache
def _rendered(package: str, schema: str) -> Mapping[str, LiteralString]:
    texts = statements(package).items()
    return MappingProxyType({label: render(text, schema) for label, text in texts})


def _types_of(text: str) -> Sequence[str]:
    """Return the types of a copy's columns, as its comment says."""
    _, found, rest = text.partition("-- types: ")
    return rest.partition("\n")[0].split() if found else ()


class Database:
    """Runs labelled statements over one connection, made when first needed."""

    def __init__(
        self,
        dsn: str,
        *,
        schema: str,
        timeout: float,
        role: str = "scheduler",
        package: str = OURS,
    ) -> None:
        try:
            given = conninfo.conninfo_to_dict(dsn)
        except psycopg.ProgrammingError:
            # libpq's own words quote what it could not read, and that may be a secret.
            message = (
                "pecker_dsn is not a PostgreSQL connection string; allowed are"
                " 'postgresql://user@host/database' or 'host=… dbname=…'"
            )
            if _SQLALCHEMY.match(dsn):
                message += "; SQLAlchemy's '+driver' is to be left out"
            raise Misconfigured(message) from None
        given.setdefault("application_name", f"{package}:{role}")
        self._each_host_has_its_own = "connect_timeout" in given
        self._dsn = conninfo.make_conninfo("", **given)
        self.schema = schema
        self._timeout = timeout
        self._package = package
        self._statements = _rendered(package, schema)
        self._connection: Patient | None = None
        self.made = 0
        """How many connections were made."""
        self._hurried = False
        self._calling_off = 0.0

    @classmethod
    def of(
        cls, settings: Settings, *, role: str = "scheduler", package: str = OURS
    ) -> Self:
        """Return a database as an app's settings say, not yet connected."""
        return cls(
            settings.dsn,
            schema=settings.schema,
            timeout=settings.database_timeout,
            role=role,
            package=package,
        )

    @property
    def where(self) -> str:
        """Name the server and database, without secrets, for messages."""
        given = conninfo.conninfo_to_dict(self._dsn)
        host = given.get("host") or "the local socket"
        return f"{given.get('dbname') or 'default database'} at {host}"

    @property
    def dsn(self) -> str:
        """The connection string, secrets included: not for messages."""
        return self._dsn

    @property
    def connected(self) -> bool:
        """Whether a connection stands (as far as is known)."""
        return self._connection is not None and not self._connection.closed

    def alive(self) -> bool:
        """Say whether a connection stands whose server has not closed it meanwhile.

        Between statements a server says nothing but that it ends the connection.
        """
        connection = self._connection
        if connection is None or connection.closed:
            return False
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        return not poll.poll(0)

    def hurry(self, seconds: float) -> None:
        """From now on wait at most this long for anything, connecting included."""
        self._timeout = seconds
        self._hurried = True
        if self._connection is not None:
            self._connection.budget = seconds

    def call_off(self, within: float) -> None:
        """From now on have the server end what it did not answer in time.

        For who is in no hurry. A statement that waits for a table's lock goes on
        waiting when its client has left, and a client that comes again and again fills
        all of the server's connections: seen with a locked pecker_history, one more
        every two seconds.
        """
        self._calling_off = within

    def run(self, label: str, **params: object) -> Sequence[tuple[Any, ...]]:
        """Return the rows of a statement; no rows for a lost race.

        Raises DatabaseUnavailable when the outcome is unknown, SchemaOutdated
        when the tables are not there.
        """
        return self._execute(label, params)[0]

    def change(self, label: str, **params: object) -> int:
        """Return how many rows a statement changed."""
        return self._execute(label, params)[1]

    def change_one(self, label: str, **params: object) -> bool:
        """Change one row; return False for none: another holder has it (I3).

        Raises:
            TooManyRows: It changed more than one, which is a bug.

        """
        return self.one_row(label, self.change(label, **params))

    def run_one(self, label: str, **params: object) -> tuple[Any, ...] | None:
        """Return the row of a statement that claims or writes one; None for none (I3).

        Raises:
            TooManyRows: There were more than one, which is a bug.

        """
        rows = self.run(label, **params)
        return rows[0] if self.one_row(label, len(rows)) else None

    def one_row(self, label: str, rows: int) -> bool:
        """Judge the number of rows that a statement wrote, where it returns the number.

        Raises:
            TooManyRows: There were more than one, which is a bug.

        """
        if rows > 1:
            message = f"{self._package}:{label} changed {rows} rows instead of one"
            raise TooManyRows(message)
        return rows == 1

    @contextmanager
    def transaction(self, *, timeout: float | None = None) -> Iterator[None]:
        """What is run inside happens together, or not at all.

        ``timeout``: seconds that each statement inside may take instead of the usual.
        """
        try:
            connection = self._connected()
        except psycopg.Error as error:
            raise self._unanswered(BEGIN, error) from error
        usual, connection.budget = connection.budget, timeout or connection.budget
        try:
            with connection.transaction():
                yield
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise self._unanswered(COMMIT, error) from error
        finally:
            connection.budget = usual

    def copy(self, label: str, rows: Iterable[Sequence[object]]) -> int:
        """Write rows by a labelled ``copy … from stdin``; return how many.

        ``-- types: int8 text`` in the statement names the columns' types: they are sent
        in binary. Rows are taken as they are sent: none is kept.
        """
        text = self._statements[label]
        types = _types_of(text)
        written = 0
        try:
            connection = self._connected()
            with (
                connection.cursor() as cursor,
                cursor.copy(text.encode()) as copy,
            ):
                copy.set_types(types)
                for row in rows:
                    copy.write_row(row)
                    written += 1
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise self._unanswered(label, error) from error
        except MISSING as error:
            raise self._missing() from error
        return written

    def close(self) -> None:
        """Drop the connection, if there is one. Never waits."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _leave_host(self) -> None:
        """Drop the connection; another host is tried first the next time."""
        if self._connection is not None and self._connection.address is not None:
            hosts.avoid(self._connection.address)
        self.close()

    def abandon(self) -> None:
        """This process, a fork of the owner, holds the owner's connection open no more.

        Nothing is said to the server: it is the owner's.
        """
        connection, self._connection = self._connection, None
        if connection is not None and not connection.closed:
            with suppress(psycopg.Error, OSError):
                os.close(connection.fileno())

    def _execute(
        self, label: str, params: dict[str, object]
    ) -> tuple[Sequence[tuple[Any, ...]], int]:
        try:
            connection = self._connected()
            with connection.cursor(binary=True) as cursor:
                cursor.execute(self._statements[label], params)
                rows = cursor.fetchall() if cursor.description else ()
                return rows, cursor.rowcount
        except LOST_RACES as error:
            if label in RACES:
                return (), 0
            message = f"{self._package}:{label} lost against a rival: {error}"
            raise DatabaseUnavailable(message) from error
        except errors.ReadOnlySqlTransaction as error:
            self._leave_host()  # a standby by now
            message = f"{self._package}:{label} found {self.where} read-only: {error}"
            raise DatabaseUnavailable(message) from error
        except MISSING as error:
            raise self._missing() from error
        except REFUSALS as error:
            self.close()
            raise self._refused(error) from error
        except errors.InsufficientPrivilege as error:
            message = (
                f"the role of pecker_dsn may not run {self._package}:{label}"
                f" ({' '.join(str(error).split())}); it needs select, insert, update"
                f" and delete on the pecker_* tables of schema {self.schema!r}"
            )
            raise Misconfigured(message) from error
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise self._unanswered(label, error) from error

    def _unanswered(self, label: str, error: psycopg.Error) -> Exception:
        """Drop the connection; return what to say: refused, or no answer."""
        asked = self._connection is not None
        self._cancel()
        self.close()
        said = " ".join(str(error).split()) or type(error).__name__
        if not isinstance(error, psycopg.InterfaceError) and _refused(said):
            return self._refused(error)
        unanswered = DatabaseUnavailable(
            f"{self._package}:{label} got no answer from {self.where}: {said}"
        )
        unanswered.asked = asked
        return unanswered

    def _missing(self) -> SchemaOutdated:
        return SchemaOutdated(
            f"the tables of celery-pecker are not in schema {self.schema!r}"
            f" of {self.where}: {MIGRATE}"
        )

    def _cancel(self) -> None:
        """Say that nobody waits any more, where there is time for it."""
        connection = self._connection
        # Older versions of libpq wait for the answer for as long as it takes.
        if not self._calling_off or self._hurried or not capabilities.has_cancel_safe():
            return
        if connection is not None and not connection.closed:
            with suppress(psycopg.Error, OSError):
                connection.cancel_safe(timeout=self._calling_off)

    def _refused(self, error: Exception) -> Misconfigured:
        said = " ".join(str(error).split())
        return Misconfigured(
            f"pecker_dsn is refused by {self.where}: {said}; give it a database,"
            " a user and a password that the server knows"
        )

    @property
    def _limit(self) -> float:
        """Return the seconds for connecting, for all hosts together."""
        if self._hurried:
            return self._timeout
        if self._each_host_has_its_own:
            return math.inf
        return max(self._timeout, LEAST_FOR_CONNECTING)

    def _connected(self) -> Patient:
        if self._connection is not None and not self._connection.closed:
            return self._connection
        self._connection = None
        connection = Patient.within(
            self._dsn, self._limit, autocommit=True, prepare_threshold=None
        )
        connection.budget = self._timeout
        self._connection = connection
        self.made += 1
        return connection


def _refused(said: str) -> bool:
    """Tell a refusal from an absence: at connect, psycopg gives no SQLSTATE."""
    if "no password supplied" in said:  # libpq's own word, before the server's
        return True
    return "FATAL:" in said and any(
        mark in said
        for mark in (
            "password authentication failed",
            "pg_hba.conf",
            "does not exist",
            "is not permitted to log in",
        )
    )
