"""psycopg that waits no longer than the deadline, nor does PostgreSQL.

    connection = deadline.clients.psycopg.Connection.connect(dsn)
    pool = ConnectionPool(dsn, connection_class=deadline.clients.psycopg.Connection)
    deadline.clients.psycopg.install(connection)        # one that is there already

Two bounds. *The server's*: `statement_timeout` for what is left travels in the same
round trip as BEGIN, and in autocommit mode as the statement itself. A statement that it
ends leaves the connection in order. *The client's*: when no answer comes (a dead route,
a frozen server), the connection is closed at once, and a thread asks the server to
cancel what still runs there. What was done by then is not known.

After the deadline only a rollback is let through. A commit is refused.
"""

import logging
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from typing import Any, Self, TypeVar

import psycopg
from psycopg import capabilities, errors, generators, pq, waiting
from psycopg.abc import Params, PQGen, Query
from psycopg.rows import Row

from celery_pecker.deadline.budget import (
    EXTRA_TIMEOUT,
    check,
    current,
    ending,
    timeout,
)
from celery_pecker.deadline.interrupter import keep_whole
from celery_pecker.kernel import hosts
from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.errors import Misconfigured

logger = logging.getLogger(__name__)

CANCEL_TIMEOUT = 5.0
AT_ONCE = 8
_free = threading.BoundedSemaphore(AT_ONCE)


def cancel_in_thread(pgconn: Any) -> None:
    """Ask the server to end a statement whose connection is given up, by a thread.

    That is a connection of its own and may hang as the first one did: so in bounded
    time, and never more than a few at once. It is a courtesy: what a dead route keeps
    from PostgreSQL, its own `statement_timeout` ends.
    """
    if not capabilities.has_cancel_safe():  # older libpq waits without bound
        return
    with suppress(psycopg.Error):
        request = pgconn.cancel_conn()
        if not _free.acquire(blocking=False):
            logger.warning("pecker: too many statements to cancel: one goes on")
            return
        threading.Thread(
            target=_cancel, args=(request,), name="pecker-cancel", daemon=True
        ).start()


def _cancel(request: Any) -> None:
    try:
        request.start()
        waiting.wait_conn(
            generators.cancel(request), interval=0.1, timeout=CANCEL_TIMEOUT
        )
    except psycopg.Error as error:
        logger.info("pecker: a statement could not be cancelled: %s", error)
    finally:
        _free.release()


Answer = TypeVar("Answer")

CLEARING = frozenset({"_enter_gen", "_rollback_gen", "_exit_gen", "_close_gen"})
"""The names of psycopg's own generators that may still be run after the deadline.

A transaction block whose beginning was refused before it was counted would be counted
off all the same, and the connection be of no more use. Its BEGIN is refused later.
"""
INTERVAL = 0.01
"""Seconds of one wait in psycopg's C code, which begins it anew after each signal."""
TRANSACTION_GRACE = 1.0
"""Seconds after the deadline at which PostgreSQL 17 ends the whole transaction."""
POSTGRESQL_17 = 170000
_ONE_STATEMENT = frozenset(
    {"SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "VALUES", "TABLE"}
)
"""What may share an implicit transaction with a set_config; a VACUUM may not."""
_SET = (
    "select set_config('statement_timeout', least(%s::bigint, nullif((extract(epoch"
    " from current_setting('statement_timeout')::interval) * 1000)::bigint, 0))::text,"
    " true)"
)
"""The bound, unless the session has a stricter one of its own."""
_UNITS = {b"us": 0.001, b"ms": 1, b"s": 1_000, b"min": 60_000, b"h": 3_600_000}
_UNITS[b"d"] = 24 * _UNITS[b"h"]


def install(connection: psycopg.Connection[Any]) -> None:
    """Let a connection that is there already obey the deadline."""
    if isinstance(connection, Connection):
        return
    if type(connection) is not psycopg.Connection:
        raise Misconfigured(
            f"deadline.clients.psycopg.install({type(connection).__name__}): allowed is"
            " a psycopg.Connection; a class of your own inherits from"
            " deadline.clients.psycopg.Connection"
        )
    connection.__class__ = Connection
    kind: Any = connection.cursor_factory
    connection.cursor_factory = bounded_cursor(kind)


_wait = psycopg.Connection.wait


class Connection(hosts.Connection[Row]):
    """psycopg's connection, bounded. Classes of your own inherit from it."""

    _own: tuple[bytes, ...] = (b"0", b"0")
    """What the session's own bounds were when they were last shown."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cursor_factory = Cursor

    @classmethod
    def connect_limit(cls) -> float | None:
        """Return what is left, for all hosts together."""
        return timeout()

    @classmethod
    def connect(cls, *args: Any, **kwargs: Any) -> Self:
        """Connect within what is left; psycopg's own timeout is in whole seconds."""
        with ending(errors.ConnectionTimeout):
            return super().connect(*args, **kwargs)

    def wait(
        self,
        gen: PQGen[Answer],
        interval: float = 0.1,
        timeout: float | None = None,
    ) -> Answer:
        """Run the protocol generator within what is left."""
        budget = current.get()
        if budget is None:
            return _wait(self, gen, interval, timeout)
        left = budget.at - monotonic()
        if left <= 0.0:
            left = 0.0
            if getattr(gen, "__name__", "") not in CLEARING:
                self._leave_if_busy()
                raise budget.exceeded()
        bounded = left + EXTRA_TIMEOUT
        if timeout is not None and timeout <= bounded:
            return _wait(self, gen, interval, timeout)
        budget.waiting += 1
        try:
            return _wait(self, gen, INTERVAL, bounded)
        except errors._WaitTimeout:  # noqa: SLF001
            self._leave()
            raise budget.exceeded() from None
        except errors.QueryCanceled as error:
            if budget.at <= monotonic() + EXTRA_TIMEOUT:
                raise budget.exceeded() from error
            raise
        except BaseException as error:
            if not isinstance(error, psycopg.Error):  # interrupted
                self._leave_if_busy()
            raise
        finally:
            budget.waiting -= 1

    def _exec_command(
        self, command: Any, result_format: pq.Format = pq.Format.TEXT
    ) -> PQGen[Any]:
        """Send BEGIN together with the server's own bounds.

        And ask for those of the session: a stricter one stays. A SELECT could do both,
        but after it SET TRANSACTION is refused. What was shown is remembered, so it
        costs a second round trip only when it is new.
        """
        me: Any = self
        plain = command is me._begin_statement and not me._pipeline  # noqa: SLF001
        left = timeout() if plain else None
        if left is None:
            executed = super()._exec_command(command, result_format)
            return (yield from executed)
        milliseconds = max(1, int(left * 1000))
        bounds = {b"statement_timeout": milliseconds}
        if me.pgconn.server_version >= POSTGRESQL_17:
            whole = milliseconds + int(TRANSACTION_GRACE * 1000)
            bounds[b"transaction_timeout"] = whole
        shows = b"".join(b"; SHOW " + name for name in bounds)
        me._check_connection_ok()  # noqa: SLF001
        results = yield from self._ask(command + shows + _set(bounds, self._own))
        own = tuple(shown.get_value(0, 0) for shown in results[1 : 1 + len(bounds)])
        if own != self._own:
            self._own = own
            yield from self._ask(_set(bounds, own))
        return results[0]

    def _ask(self, text: bytes) -> PQGen[list[Any]]:
        me: Any = self
        me.pgconn.send_query(text)
        results: list[Any] = yield from generators.execute(me.pgconn)
        for result in results:
            if result.status == pq.ExecStatus.FATAL_ERROR:
                encoding = me.pgconn._encoding  # noqa: SLF001
                raise errors.error_from_result(result, encoding=encoding)
        return results

    def commit(self) -> None:
        """Commit, unless the deadline is over."""
        check()
        super().commit()

    @contextmanager
    def transaction(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Open a transaction that is rolled back if it ends too late."""
        whole = super().transaction(*args, **kwargs)
        with whole as transaction:
            yield transaction
            check()

    def _leave_if_busy(self) -> None:
        active = self.pgconn.transaction_status == pq.TransactionStatus.ACTIVE
        if active or self.pgconn.pipeline_status:
            self._leave()

    def _leave(self) -> None:
        """Close the connection now; PostgreSQL is asked elsewhere to cancel."""
        try:
            cancel_in_thread(self.pgconn)
        finally:
            self.pgconn.finish()


class BoundedCursor:
    """Marks the classes of cursors that are made here."""


def _within(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return `execute`, which in autocommit mode sends the bound with the statement."""

    def execute(
        self: Any,
        query: Query,
        params: Params | None = None,
        *,
        prepare: bool | None = None,
        binary: bool | None = None,
    ) -> Any:
        connection = self._conn
        if (
            not connection._autocommit  # noqa: SLF001 — its property costs two calls
            or (left := timeout()) is None
            or not _alone(connection, query)
        ):
            return plain(self, query, params, prepare=prepare, binary=binary)
        with connection.pipeline():
            bound = psycopg.Cursor(connection)
            bound.execute(_SET, [str(max(1, int(left * 1000)))], prepare=False)
            plain(self, query, params, prepare=prepare, binary=binary)
        return self

    keep_whole(execute)
    return execute


def _set(bounds: dict[bytes, int], own: tuple[bytes, ...]) -> bytes:
    """Return what sets the bounds where the session's own are not stricter.

    A longer transaction_timeout is counting already, and goes on unless it is switched
    off before.
    """
    text = b""
    for (name, most), shown in zip(bounds.items(), own, strict=False):
        theirs = _milliseconds(shown)
        if most < theirs < math.inf:
            text += b"; SET LOCAL %s = 0" % name
        text += b"; SET LOCAL %s = %d" % (name, min(most, theirs))
    return text


@lru_cache(maxsize=64)
def _milliseconds(shown: bytes) -> float:
    """Return a duration as PostgreSQL shows it: 0, 200ms, 1min."""
    number = shown.rstrip(b"abcdefghijklmnopqrstuvwxyz")
    unit = shown[len(number) :]
    return int(number) * _UNITS.get(unit, 1) or math.inf


def _alone(connection: Any, query: Query) -> bool:
    """Return whether the statement would be a transaction of its own."""
    if (
        connection.pgconn.transaction_status != pq.TransactionStatus.IDLE
        or connection.pgconn.pipeline_status
    ):
        return False
    if isinstance(query, bytes):
        begins = query[:256].decode(errors="replace")
    elif isinstance(query, str):
        begins = query[:256]
    else:
        return False
    word, _, rest = begins.lstrip(" (\n\t").partition(" ")
    return word.strip().upper() in _ONE_STATEMENT and ";" not in rest + str(query)[256:]


@cache
def bounded_cursor(kind: type[Any]) -> type[Any]:
    """Return a class of cursors, made to obey the deadline."""
    if issubclass(kind, BoundedCursor) or not issubclass(kind, psycopg.Cursor):
        return kind
    added = {"execute": _within(kind.execute)}
    return type(f"Bounded{kind.__name__}", (BoundedCursor, kind), added)


Cursor: Any = bounded_cursor(psycopg.Cursor)
"""psycopg's cursor, bounded."""

keep_whole(psycopg.Transaction.__enter__, psycopg.Transaction.__exit__)
