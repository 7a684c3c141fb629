"""The seam to PostgreSQL: run a labelled statement, in bounded time.

One connection per holder, made on first use by the thread that uses it (never before
a fork). Autocommit: a statement is a transaction. Nothing is prepared on the server
and nothing is set for the session, so a transaction pooler may stand between.

Every wait is bounded on the client's side, because a server that accepts and never
answers (frozen, or a half-open route) trips neither keepalives nor a server-side
timeout. A connection whose statement timed out is dropped, not reused: what it
did is unknown.
"""

import math
import select
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, Protocol, Self, TypeVar

import psycopg
from psycopg import capabilities, conninfo, errors
from psycopg.rows import RowFactory, kwargs_row, tuple_row

from celery_pecker.kernel import hosts, refusals
from celery_pecker.kernel.errors import DatabaseUnavailable, TooManyRows
from celery_pecker.kernel.hosts import (
    LEAST_FOR_CONNECTING,
    BoundedConnection,
    parameters_of,
)
from celery_pecker.kernel.settings import Settings
from celery_pecker.kernel.sql import OURS, rendered, types_of

BEGIN, COMMIT = "begin", "commit"
R = TypeVar("R")


class Tables(Protocol):
    """What runs labelled statements: our connection, or Django's."""

    schema: str

    def run(self, label: str, **params: Any) -> Sequence[tuple[Any, ...]]:
        """Return the rows of a statement."""

    def read(self, of: Callable[..., R], label: str, **params: Any) -> Sequence[R]:
        """Return what is made of each row, of its columns by name."""


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
        now: Callable[[], datetime | None] = lambda: None,
    ) -> None:
        options = parameters_of(dsn)
        options.setdefault("application_name", f"{package}:{role}")
        self._each_host_has_its_own = "connect_timeout" in options
        self.dsn = conninfo.make_conninfo("", **options)
        """The connection string, secrets included: not for messages."""
        self.schema = schema
        self._timeout = timeout
        self._package = package
        self._statements = rendered(package, schema)
        self._connection: BoundedConnection | None = None
        self.made = 0
        """How many connections were made."""
        self.shows_arguments = True
        """Whether people see what tasks and observers were called with."""
        self.now = now
        """What time statements go by; None, but in tests: the server's own clock."""
        self._hurried = False
        self._calling_off = 0.0

    @classmethod
    def of(
        cls, settings: Settings, *, timeout: float | None = None, **names: Any
    ) -> Self:
        """Return a database as an app's settings say, not yet connected."""
        timeout = timeout or settings.database_timeout
        made = cls(settings.dsn, schema=settings.schema, timeout=timeout, **names)
        made.shows_arguments = settings.show_arguments
        return made

    @property
    def where(self) -> str:
        """Name the server and database, without secrets, for messages."""
        options = conninfo.conninfo_to_dict(self.dsn)
        host = options.get("host") or "the local socket"
        return f"{options.get('dbname') or 'default database'} at {host}"

    @property
    def connected(self) -> bool:
        """Whether a connection stands (as far as is known)."""
        return self._connection is not None and not self._connection.closed

    def alive(self) -> bool:
        """Return whether a connection stands whose server has not closed it meanwhile.

        Between statements a server says nothing but that it ends the connection.
        """
        connection = self._connection
        if connection is None or connection.closed:
            return False
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        return not poll.poll(0)

    def limit_wait(self, seconds: float) -> None:
        """Wait at most this long for anything from now on, connecting included."""
        self._timeout = seconds
        self._hurried = True
        if self._connection is not None:
            self._connection.budget = seconds

    def call_off(self, within: float) -> None:
        """Have the server end what it does not answer in time from now on.

        For work without a deadline. A statement that waits for a table's lock goes on
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

    def read(self, of: Callable[..., R], label: str, **params: object) -> Sequence[R]:
        """Return what is made of each row of a statement, of its columns by name."""
        return self._execute(label, params, kwargs_row(of))[0]

    def column(self, label: str, **params: object) -> list[Any]:
        """Run the statement and return the first value of each row."""
        return [row[0] for row in self.run(label, **params)]

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
            raise TooManyRows(
                f"{self._package}:{label} changed {rows} rows instead of one"
            )
        return rows == 1

    @contextmanager
    def transaction(self, *, timeout: float | None = None) -> Iterator[None]:
        """Run what is inside together, or not at all.

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
        types = types_of(text)
        written = 0
        try:
            connection = self._connected()
            with connection.cursor() as cursor, cursor.copy(text.encode()) as copy:
                copy.set_types(types)
                for row in rows:
                    copy.write_row(row)
                    written += 1
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise self._unanswered(label, error) from error
        except refusals.MISSING as error:
            raise refusals.missing(self.schema, self.where) from error
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
        """Close the descriptor in a fork of the owner, without a word to the server."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abandon()

    def _execute(
        self,
        label: str,
        params: dict[str, object],
        row_factory: RowFactory[Any] = tuple_row,
    ) -> tuple[Sequence[Any], int]:
        try:
            connection = self._connected()
            with connection.cursor(binary=True, row_factory=row_factory) as cursor:
                cursor.execute(self._statements[label], {"now": self.now(), **params})
                rows = cursor.fetchall() if cursor.description else ()
                return rows, cursor.rowcount
        except refusals.LOST_RACES as error:
            if label in refusals.RACES:
                return (), 0
            raise DatabaseUnavailable(
                f"{self._package}:{label} lost against a rival: {error}"
            ) from error
        except errors.ReadOnlySqlTransaction as error:
            self._leave_host()  # a standby by now
            raise DatabaseUnavailable(
                f"{self._package}:{label} found {self.where} read-only: {error}"
            ) from error
        except refusals.MISSING as error:
            raise refusals.missing(self.schema, self.where) from error
        except refusals.REFUSALS as error:
            self.close()
            raise refusals.refused(self.where, error) from error
        except errors.InsufficientPrivilege as error:
            raise refusals.no_right(
                f"{self._package}:{label}", self.schema, error
            ) from error
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise self._unanswered(label, error) from error

    def _unanswered(self, label: str, error: psycopg.Error) -> Exception:
        """Drop the connection; return the error: refused, or no answer."""
        asked = self._connection is not None
        self._cancel()
        self.close()
        text = " ".join(str(error).split()) or type(error).__name__
        lost = isinstance(error, psycopg.InterfaceError)
        if not lost and refusals.is_refusal(text):
            return refusals.refused(self.where, error)
        unanswered = DatabaseUnavailable(
            f"{self._package}:{label} got no answer from {self.where}: {text}"
        )
        unanswered.asked = asked
        return unanswered

    def _cancel(self) -> None:
        """Cancel the statement on the server, where there is time for it."""
        connection = self._connection
        # Older versions of libpq wait for the answer for as long as it takes.
        if not self._calling_off or self._hurried or not capabilities.has_cancel_safe():
            return
        if connection is not None and not connection.closed:
            with suppress(psycopg.Error, OSError):
                connection.cancel_safe(timeout=self._calling_off)

    @property
    def _limit(self) -> float:
        """Return the seconds for connecting, for all hosts together."""
        if self._hurried:
            return self._timeout
        if self._each_host_has_its_own:
            return math.inf
        return max(self._timeout, LEAST_FOR_CONNECTING)

    def _connected(self) -> BoundedConnection:
        if self._connection is not None and not self._connection.closed:
            return self._connection
        self._connection = None
        connection = BoundedConnection.within(
            self.dsn, self._limit, autocommit=True, prepare_threshold=None
        )
        connection.budget = self._timeout
        self._connection = connection
        self.made += 1
        return connection
