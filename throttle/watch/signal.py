"""Asks a PostgreSQL how it is, in bounded time.

Every wait is bounded on the client's side too, since a server that hangs answers to no
timeout of its own. A connection whose question was not answered is dropped, and the
next one waits longer each time: a server that hangs must not be filled with
connections that ask for its state.
"""

from collections.abc import Sequence
from contextlib import suppress
from importlib.resources import files
from typing import Any

import psycopg
from psycopg import capabilities, conninfo
from psycopg.rows import namedtuple_row

from celery_pecker.kernel.clock import Monotonic, monotonic
from celery_pecker.kernel.forks import abandon_in_forks
from celery_pecker.kernel.hosts import BoundedConnection
from throttle import addresses
from throttle.errors import ThrottleError
from throttle.model import Watch
from throttle.watch.limit_factor import FAR, Symptom

CONNECTING = 2
"""Seconds for a connection: the least that libpq knows."""
ANSWER = 1.0
"""Seconds for an answer."""
CALLING_OFF = 0.5
LONGEST = 30.0
"""Seconds until a server that did not answer is asked once more, at most."""
FULL = ("too many clients", "remaining connection slots")
"""What a server says, in English, that has no connection left."""


SIGNAL = files(__package__).joinpath("signal.sql").read_bytes().strip()


class Unanswered(ThrottleError):
    """The server did not report its state; or it is not time to ask it."""


class Signal:
    """One watched server; for one thread."""

    def __init__(
        self, database: str, watch: Watch, *, clock: Monotonic = monotonic
    ) -> None:
        self._watch = watch
        self._clock = clock
        self._dsn = _dsn(database, watch)
        self._connection: BoundedConnection | None = None
        self._written: tuple[float, float] | None = None
        self._failures = 0
        self._next_attempt = float("-inf")
        self.sees_all = True
        """Whether the role sees what other roles do; without that it sees nothing."""
        abandon_in_forks(self)

    @property
    def where(self) -> str:
        """Name the server and database, without secrets."""
        options = conninfo.conninfo_to_dict(self._dsn)
        host = options.get("host") or "the local socket"
        return f"{options.get('dbname') or 'default database'} at {host}"

    def ask(self) -> Sequence[Symptom]:
        """Return what the server says of itself; raises Unanswered."""
        now = self._clock()
        if now < self._next_attempt:
            message = f"{self.where} is asked later: it did not answer"
            raise Unanswered(message)
        try:
            row = self._asked()
        except psycopg.Error as error:
            return self._failed(error)
        self._failures = 0
        self.sees_all = row.sees_all
        return self._symptoms(row)

    def close(self) -> None:
        """Close the connection; forget what was written so far."""
        connection, self._connection = self._connection, None
        self._written = None
        if connection is not None:
            connection.close()

    def abandon(self) -> None:
        """Leave the connection to the parent: this process is a fork."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abandon()

    def _asked(self) -> Any:
        connection = self._connected()
        with (
            connection.transaction(),
            connection.cursor(row_factory=namedtuple_row) as cursor,
        ):
            cursor.execute("set local statement_timeout = 900")
            cursor.execute(SIGNAL)
            return cursor.fetchone()

    def _symptoms(self, row: Any) -> Sequence[Symptom]:
        watch, symptoms = self._watch, []
        before, self._written = self._written, (row.at, row.written)
        if watch.active is not None:
            symptoms.append(_symptom("active backends", row.active, watch.active))
        if watch.wal_rate is not None and before is not None:
            elapsed, written = row.at - before[0], row.written - before[1]
            if elapsed > 0 and written >= 0:  # else another server, or another clock
                symptoms.append(
                    _symptom(
                        "bytes of WAL per second", written / elapsed, watch.wal_rate
                    )
                )
        if watch.lag is not None:
            symptoms.append(_symptom("seconds of lag", row.lag or 0.0, watch.lag))
        return symptoms

    def _failed(self, error: psycopg.Error) -> Sequence[Symptom]:
        self._call_off()
        self.close()
        reason = " ".join(str(error).split()) or type(error).__name__
        if any(mark in reason for mark in FULL):
            return [Symptom(FAR, "no connection is free")]
        self._failures += 1
        self._next_attempt = self._clock() + min(2.0 ** (self._failures - 1), LONGEST)
        message = f"{self.where} does not say how it is: {reason}"
        raise Unanswered(message) from error

    def _call_off(self) -> None:
        # Older versions of libpq wait for the answer for as long as it takes.
        connection = self._connection
        if (
            connection is not None
            and not connection.closed
            and capabilities.has_cancel_safe()
        ):
            with suppress(psycopg.Error, OSError):
                connection.cancel_safe(timeout=CALLING_OFF)

    def _connected(self) -> BoundedConnection:
        if self._connection is None or self._connection.closed:
            self._connection = BoundedConnection.connect(
                self._dsn, autocommit=True, prepare_threshold=None
            )
            self._connection.budget = ANSWER
        return self._connection


def _symptom(name: str, value: float, threshold: float) -> Symptom:
    return Symptom(value / threshold, f"{value:.6g} {name}, of {threshold:g}")


def _dsn(database: str, watch: Watch) -> str:
    key = f"throttle_limits[{database!r}]['watch']['dsn']"
    options = addresses.postgres(key, watch.dsn)
    options.setdefault("application_name", "throttle:watch")
    options.setdefault("connect_timeout", str(CONNECTING))
    return conninfo.make_conninfo("", **options)
