"""SQLAlchemy engines on psycopg that obey the deadline.

    engine = create_engine("postgresql+psycopg://…")
    deadline.clients.sqlalchemy.install(engine)

Connecting, statements, COMMIT and the wait for a free connection of the pool. A
connection that was given up is invalidated, so the pool replaces it.
"""

from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine
from sqlalchemy.engine.base import Transaction
from sqlalchemy.pool import QueuePool, base
from sqlalchemy.util.queue import Empty, Queue

from celery_pecker.deadline.budget import DeadlineExceeded, ending, timeout
from celery_pecker.deadline.clients import psycopg as psycopg_client
from celery_pecker.deadline.interrupter import keep_whole
from celery_pecker.kernel.errors import Misconfigured

keep_whole(
    base._ConnectionFairy._checkout,  # noqa: SLF001 — or the pool loses one
    base._ConnectionRecord.checkin,  # noqa: SLF001
    base._finalize_fairy,  # noqa: SLF001
    Transaction.commit,
    Transaction.rollback,
    Transaction.close,
)


def install(engine: Engine) -> None:
    """Let an engine obey the deadline. Connections that it has already are replaced."""
    dialect = f"{engine.dialect.name}+{engine.dialect.driver}"
    if dialect != "postgresql+psycopg":
        raise Misconfigured(
            f"deadline.clients.sqlalchemy.install(engine of {dialect}): allowed is"
            " postgresql+psycopg; under asyncio use `async with deadline.within(…)`"
        )
    if event.contains(engine, "do_connect", _dial):
        return
    event.listen(engine, "do_connect", _dial)
    event.listen(engine, "connect", _bound)
    event.listen(engine, "handle_error", _give_up)
    engine.dispose()
    if type(engine.pool) is QueuePool:
        _wait_within(engine.pool)


def _dial(_dialect: Any, _record: Any, args: list[Any], named: dict[str, Any]) -> Any:
    return psycopg_client.Connection.connect(*args, **named)


def _bound(connection: Any, _record: Any) -> None:
    """Return the connections of an engine with a `creator`, which dials by itself."""
    psycopg_client.install(connection)


def _give_up(context: Any) -> None:
    """Drop what was closed in the middle: it must not be rolled back or lent.

    What PostgreSQL has ended is; SQLAlchemy takes every TimeoutError for asyncio's.
    """
    error, connection = context.original_exception, context.connection
    if isinstance(error, DeadlineExceeded) and connection is not None:
        driver = connection.connection.dbapi_connection
        context.is_disconnect = driver is not None and bool(driver.closed)
        context.invalidate_pool_on_disconnect = False


class _Pool(QueuePool):
    """A pool in which no thread waits beyond the deadline."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _wait_within(self)


def _wait_within(pool: QueuePool) -> None:
    """Bound the wait for a connection: the pool's own timeout is one for all."""
    pool.__class__ = _Pool  # also what becomes of it at `engine.dispose()`
    queue = pool._pool  # noqa: SLF001 — it has no other door
    pool._pool = _Queue(queue.maxsize, queue.use_lifo)  # noqa: SLF001


class _Queue(Queue):  # type: ignore[type-arg]  # of 1.4 it takes none
    """Free connections."""

    def get(self, block: bool = True, seconds: float | None = None) -> Any:
        """Return one; wait within what is left."""
        if not block:
            return super().get(block, seconds)
        with ending(Empty):
            return super().get(block, timeout(seconds))
