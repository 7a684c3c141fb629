"""Adapters of connections: a write of ours joins the transaction of its caller.

Each adapter says where it is, refuses what has no transaction that could be joined,
and runs a statement with named parameters in that transaction. Drivers are not loaded
here: a connection of one that is not loaded cannot be there.
"""

from typing import Any

from celery_pecker.kernel.adapters import django, psycopg3, sqlalchemy
from celery_pecker.kernel.adapters.adapter import Adapter, AsyncAdapter, drive
from celery_pecker.kernel.errors import NotRecorded

__all__ = ["Adapter", "AsyncAdapter", "adapter_of", "async_adapter_of", "drive"]

ALLOWED = (
    "a Connection or AsyncConnection of psycopg 3, a Connection, Session,"
    " AsyncConnection or AsyncSession of SQLAlchemy 2, a connection of Django"
)


def adapter_of(connection: Any) -> Adapter:
    """Return the adapter for what ``send`` was called with.

    Raises:
        NotRecorded: it is of an unknown kind, or one that must be awaited.
    """
    for kind in (psycopg3, sqlalchemy, django):
        one: Adapter | None = kind.adapter(connection)
        if one is not None:
            return one
    if _awaited(connection) is not None:
        raise NotRecorded(
            f"connection is {_named(connection)}, which is to be awaited: call"
            " asend, asend_many, `async with using`, astart or aset instead"
        )
    raise _unknown(connection)


def async_adapter_of(connection: Any) -> AsyncAdapter:
    """Return the adapter for what ``asend`` was called with.

    Raises:
        NotRecorded: it is of an unknown kind, or one that would block the event loop.
    """
    one = _awaited(connection)
    if one is not None:
        return one
    if any(kind.adapter(connection) for kind in (psycopg3, sqlalchemy, django)):
        raise NotRecorded(
            f"connection is {_named(connection)}, which blocks: call send, send_many,"
            " `with using`, start or set instead (in Django by sync_to_async)"
        )
    raise _unknown(connection)


def _awaited(connection: Any) -> AsyncAdapter | None:
    return psycopg3.async_adapter(connection) or sqlalchemy.async_adapter(connection)


def _unknown(connection: object) -> NotRecorded:
    message = f"connection is {_named(connection)}; allowed are {ALLOWED}"
    return NotRecorded(message)


def _named(connection: object) -> str:
    kind = type(connection)
    return f"{kind.__module__}.{kind.__qualname__}"
