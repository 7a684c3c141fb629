"""SQLAlchemy engines, made to count.

On psycopg 3 the engine's connections are made to count themselves: cheaper than
SQLAlchemy's events, and commits, COPY and raw cursors are seen too. On other drivers
the events say what is done.
"""

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import event
from sqlalchemy.engine import Engine

from celery_pecker.kernel.clock import perf_ns
from throttle.errors import Misconfigured
from throttle.instrument.connections import count, leave
from throttle.meter import Tally
from throttle.meter.cells import NANOSECONDS, OPERATIONS, ROWS, STARTED

Listeners = list[tuple[str, Callable[..., Any]]]
_installed: WeakKeyDictionary[Engine, Listeners] = WeakKeyDictionary()
PSYCOPG = ("psycopg", "psycopg_async")


def install(engine: Any, tally: Tally, *, timing: bool) -> Any:
    """Count what the engine does, synchronous or not; return it."""
    plain = plain_engine(engine)
    remove(plain)
    if plain.dialect.driver in PSYCOPG:
        listeners = _lent(tally, timing=timing)
    else:
        listeners = _listeners(tally, timing=timing)
    _listen(plain, listeners)
    return engine


def uninstall(engine: Any) -> None:
    """Stop the counting of an engine."""
    plain = plain_engine(engine)
    if remove(plain) and plain.dialect.driver in PSYCOPG:

        def stop(_connection: Any, record: Any, _proxy: Any) -> None:
            leave(record.driver_connection)

        _listen(plain, [("checkout", stop)])


def plain_engine(engine: Any) -> Engine:
    """Return the engine that does the work of an asynchronous one."""
    plain = getattr(engine, "sync_engine", engine)
    if not isinstance(plain, Engine):
        raise Misconfigured(f"instrument.sqlalchemy({engine!r}): allowed is an engine")
    return plain


def remove(engine: Engine) -> bool:
    """Return whether anything was installed; it is not any more."""
    listeners = _installed.pop(engine, [])
    for name, function in listeners:
        event.remove(engine, name, function)
    return bool(listeners)


def _listen(engine: Engine, listeners: Listeners) -> None:
    for name, function in listeners:
        event.listen(engine, name, function)
    _installed[engine] = listeners


def _lent(tally: Tally, *, timing: bool) -> Listeners:
    """Count a connection when it is lent: also those that the pool has already."""

    def lent(_connection: Any, record: Any, _proxy: Any) -> None:
        count(record.driver_connection, tally, timing=timing)

    return [("checkout", lent)]


def _listeners(tally: Tally, *, timing: bool) -> Listeners:
    local = tally.local

    def before(*event: Any) -> None:
        parameters, context, many = event[-3:]
        cells, at = local.cells, tally.at
        # Rows to be inserted and returned come as "many" too, statement by statement:
        # then these are the values of one.
        several = many and isinstance(parameters, list)
        cells[at + OPERATIONS] += len(parameters) if several else 1
        if timing:
            cells[at + STARTED] = context.throttle_started = perf_ns()

    def after(*event: Any) -> None:
        cursor, context = event[1], event[-2]
        ended(context, max(cursor.rowcount, 0))

    def failed(failure: Any) -> None:
        if failure.execution_context is not None:
            ended(failure.execution_context, 0)

    def ended(context: Any, rows: int) -> None:
        started = context.__dict__.pop("throttle_started", None)
        if started is None:
            return
        cells, at = local.cells, tally.at
        cells[at + STARTED] = 0
        cells[at + NANOSECONDS] += perf_ns() - started
        cells[at + ROWS] += rows

    def done(_connection: Any) -> None:
        tally.add()

    return [
        ("before_cursor_execute", before),
        ("after_cursor_execute", after),
        ("handle_error", failed),
        ("commit", done),
        ("rollback", done),
    ]
