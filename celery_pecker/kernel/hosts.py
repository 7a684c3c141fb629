"""Connect to the first of several PostgreSQL hosts that answers, within one limit.

A host that accepts a connection, or drops its packets, and never answers used up the
time of all hosts, each time anew. So what is left of the limit is divided among the
hosts that are left, and a host that did not answer is tried after the others for
a minute, by all connections of this process. Nothing else changes the order of the DSN.

A DSN may name hosts in many ways: lists, names with several addresses, the environment,
a service file. psycopg tells them apart; only service files are read here, by libpq.
"""

import math
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Self, TypeVar

import psycopg
from psycopg import conninfo, errors, pq, waiting
from psycopg._conninfo_attempts import conninfo_attempts
from psycopg._conninfo_utils import get_param
from psycopg.abc import ConnDict, PQGen, PQGenConn
from psycopg.conninfo import make_conninfo, timeout_from_conninfo
from psycopg.pq import TransactionStatus
from psycopg.rows import Row

from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.errors import Misconfigured

RETRY_INTERVAL = 60.0
"""Seconds after which one connection tries a silent host in its usual place."""
LEAST = 0.01
"""Seconds that a host has at least, and of one wait in psycopg's C code."""
FAIR = 0.1
"""Seconds after which a host is called silent. One that had less, since a deadline was
near, may be well."""
REMEMBERED = 100
"""Silent hosts that are remembered; a name may have ever new addresses."""
NAMED_BY_SERVICE = frozenset(
    {
        "host",
        "hostaddr",
        "port",
        "connect_timeout",
        "target_session_attrs",
        "load_balance_hosts",
    }
)

Address = tuple[str | None, ...]

_limit: ContextVar[float | None] = ContextVar("connect_limit", default=None)
_share: ContextVar[float | None] = ContextVar("connect_share", default=None)
_silent: dict[Address, float] = {}
"""When hosts were last found silent, by the monotonic clock."""


class Connection(psycopg.Connection[Row]):
    """A connection of psycopg that divides the time for connecting among hosts."""

    address: Address | None = None
    """Its host among those of the DSN."""

    @classmethod
    def connect_limit(cls) -> float | None:
        """Return the seconds for all hosts together; None: psycopg's, for each."""
        return _limit.get()

    @classmethod
    def connect(
        cls, conninfo: str = "", *, autocommit: bool = False, **kwargs: Any
    ) -> Self:
        """Connect to the first host that answers; raise psycopg.OperationalError."""
        limit = cls.connect_limit()
        if limit is None:
            return super().connect(conninfo, autocommit=autocommit, **kwargs)
        options = {name: kwargs.pop(name) for name in _OPTIONS & kwargs.keys()}
        params = cls._get_connection_params(conninfo, **kwargs)
        ends = monotonic() + limit
        failures: list[tuple[ConnDict, psycopg.Error]] = []
        places = attempts(params)
        longest = timeout_from_conninfo(_with_service(params))
        for tried, place in enumerate(places):
            left = ends - monotonic()
            if failures and left <= 0:
                break
            share = min(left / (len(places) - tried), longest)
            token = _share.set(max(share, LEAST))
            try:
                made = super().connect(
                    make_conninfo("", **place), autocommit=autocommit, **options
                )
            except psycopg.Error as error:
                if isinstance(error, errors.ConnectionTimeout) and share >= FAIR:
                    avoid(_address(place))
                failures.append((place, error))
            else:
                made.address = _address(place)
                _silent.pop(made.address, None)
                return made
            finally:
                _share.reset(token)
        raise _joined(failures)

    @classmethod
    def _connect_gen(cls, conninfo: str = "") -> PQGenConn[Self]:
        """Connect to one host within its share; psycopg counts whole seconds."""
        connecting: PQGenConn[Self] = super()._connect_gen(conninfo)
        share = _share.get()
        if share is None:
            return (yield from connecting)
        return waiting.wait_conn(connecting, interval=LEAST, timeout=share)


_OPTIONS = frozenset({"prepare_threshold", "context", "row_factory", "cursor_factory"})
"""What `psycopg.Connection.connect` takes that is no parameter of libpq."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Let connecting inside take so many seconds, for all hosts together."""
    token = _limit.set(seconds)
    try:
        yield
    finally:
        _limit.reset(token)


def attempts(params: ConnDict) -> list[ConnDict]:
    """Return the parameters of each host in the order in which to try them.

    Silent ones come last, the one that was silent longest ago first of them.
    """
    now = monotonic()
    return sorted(
        conninfo_attempts(_with_service(params)),
        key=lambda place: _silent_since(_address(place), now),
    )


def avoid(address: Address) -> None:
    """Try this host after the others for a minute."""
    if len(_silent) >= REMEMBERED:
        _silent.clear()
    _silent[address] = monotonic()


def described(params: ConnDict) -> str:
    """Name a host as people know it."""
    host, hostaddr, port = _address(params)
    name = host or hostaddr or "the local socket"
    shown = f"{name} ({hostaddr})" if hostaddr not in {None, "", name} else name
    return f"{shown} port {port}" if port else shown


def _silent_since(address: Address, now: float) -> float:
    since = _silent.get(address)
    if since is None:
        return -math.inf
    if now - since < RETRY_INTERVAL:
        return since
    # One connection pays for the look; the others go on as before.
    _silent[address] = now
    return -math.inf


def _address(params: ConnDict) -> Address:
    return tuple(get_param(params, name) for name in ("host", "hostaddr", "port"))


def _with_service(params: ConnDict) -> ConnDict:
    """Return the parameters with the hosts that a service file names.

    libpq reads the file when it begins to connect. A mode of TLS that does not exist
    lets it stop right after, before it connects to a host.
    """
    if not get_param(params, "service"):
        return params
    stopped = make_conninfo("", **{**params, "sslmode": "none such"})
    connection = pq.PGconn.connect_start(stopped.encode())
    try:
        known = {
            option.keyword.decode(): option.val.decode()
            for option in connection.info
            if option.val
        }
    finally:
        connection.finish()
    named = {name: known[name] for name in NAMED_BY_SERVICE & known.keys()}
    return {**named, **params}


def _joined(failures: Sequence[tuple[ConnDict, psycopg.Error]]) -> psycopg.Error:
    """Return one error that names each host; of one host, its own."""
    *_, (_, last) = failures
    if len(failures) == 1:
        return last.with_traceback(None)
    words = [f"{described(place)}: {error}" for place, error in failures]
    return type(last)("; ".join(words), pgconn=last.pgconn)


Result = TypeVar("Result")
_SQLALCHEMY = re.compile(r"postgres(ql)?\+\w+://")
"""A URL that names a driver, which libpq does not know."""
LEAST_FOR_CONNECTING = 2.0
"""Seconds for all hosts together, where there is no earlier deadline."""


class BoundedConnection(Connection[tuple[Any, ...]]):
    """A connection that waits no longer than its budget for anything."""

    budget: float | None = None

    @classmethod
    def within(cls, dsn: str, seconds: float, **options: Any) -> Self:
        """Connect within so many seconds, of which each host gets its share."""
        with within(seconds):
            return cls.connect(dsn, **options)

    def abandon(self) -> None:
        """Close the descriptor in a fork of the owner, without a word to the server."""
        if not self.closed:
            with suppress(psycopg.Error, OSError):
                os.close(self.fileno())

    def wait(
        self,
        gen: PQGen[Result],
        interval: float = 0.1,
        timeout: float | None = None,
    ) -> Result:
        """Run the protocol generator, within the budget.

        A statement that is struck, by a deadline or a signal, costs the connection: its
        answer would be taken for that of the next one.
        """
        try:
            return super().wait(gen, interval=interval, timeout=timeout or self.budget)
        except psycopg.Error:
            raise
        except BaseException:
            if self.info.transaction_status is TransactionStatus.ACTIVE:
                self.close()
            raise


def parameters_of(dsn: str) -> dict[str, Any]:
    """Return the parameters of a connection string.

    Raises:
        Misconfigured: it is none.
    """
    try:
        return conninfo.conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        # libpq's own words quote what it could not read, and that may be a secret.
        message = (
            "pecker_dsn is not a PostgreSQL connection string; allowed are"
            " 'postgresql://user@host/database' or 'host=… dbname=…'"
        )
        if _SQLALCHEMY.match(dsn):
            message += "; SQLAlchemy's '+driver' is to be left out"
        raise Misconfigured(message) from None
