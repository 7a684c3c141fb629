"""Transactions of every kind that a caller may have, with one set of handles."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass
from typing import Any

import django
import psycopg
from django.conf import settings
from django.db import connections, transaction
from django.db.backends.postgresql.base import DatabaseWrapper
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

ALIAS = "outbox"


@dataclass(frozen=True)
class Door:
    """A connection or session with a transaction, and what its caller does with it."""

    connection: Any
    """What is handed to the outbox."""
    execute: Callable[[str], Any]
    commit: Callable[[], Any]
    rollback: Callable[[], Any]
    savepoint: Callable[[], Any]
    """A context manager: an exception inside takes back what was done in it."""


class Undo(Exception):
    """Takes back a transaction or a savepoint."""


@contextmanager
def psycopg_door(dsn: str) -> Iterator[Door]:
    """Give a connection of psycopg."""
    with psycopg.connect(dsn) as connection:
        yield Door(
            connection,
            lambda statement: connection.execute(statement.encode()),
            connection.commit,
            connection.rollback,
            connection.transaction,
        )
        connection.rollback()


def url(dsn: str, driver: str) -> str:
    """Return the address as SQLAlchemy writes it."""
    return dsn.replace("postgresql://", f"postgresql+{driver}://", 1)


@contextmanager
def alchemy_door(dsn: str, driver: str, *, session: bool) -> Iterator[Door]:
    """Give a connection or a session of SQLAlchemy."""
    engine = create_engine(url(dsn, driver))
    with Session(engine) if session else engine.connect() as bound:
        yield Door(
            bound,
            lambda statement: bound.execute(text(statement)),
            bound.commit,
            bound.rollback,
            bound.begin_nested,
        )
    engine.dispose()


def django_connection(dsn: str, alias: str = ALIAS) -> Any:
    """Return a connection of Django, known by its alias."""
    if not settings.configured:
        settings.configure()
    django.setup()
    parts = conninfo_to_dict(dsn)
    connections[alias] = DatabaseWrapper(
        {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts["dbname"],
            "USER": parts["user"],
            "PASSWORD": parts.get("password", ""),
            "HOST": parts["host"],
            "PORT": parts.get("port", ""),
            "OPTIONS": {},
            "TIME_ZONE": None,
            "CONN_MAX_AGE": 0,
            "CONN_HEALTH_CHECKS": False,
            "AUTOCOMMIT": True,
            "ATOMIC_REQUESTS": False,
            "TEST": {},
        },
        alias=alias,
    )
    return connections[alias]


@contextmanager
def django_door(dsn: str) -> Iterator[Door]:
    """Give a connection of Django in an atomic block."""
    connection = django_connection(dsn)
    stack = ExitStack()
    stack.enter_context(transaction.atomic(using=ALIAS))

    def execute(statement: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(statement)

    def rollback() -> None:
        transaction.set_rollback(True, using=ALIAS)
        stack.close()

    try:
        yield Door(
            connection,
            execute,
            stack.close,
            rollback,
            lambda: transaction.atomic(using=ALIAS),
        )
    finally:
        stack.close()
        connection.close()


DOORS: dict[str, Callable[[str], AbstractContextManager[Door]]] = {
    "psycopg": psycopg_door,
    "django": django_door,
    **{
        f"sqlalchemy-{kind}-{driver}": lambda dsn, driver=driver, kind=kind: (  # type: ignore[misc]
            alchemy_door(dsn, driver, session=kind == "session")
        )
        for kind in ("connection", "session")
        for driver in ("psycopg", "psycopg2")
    },
}


@asynccontextmanager
async def async_psycopg_door(dsn: str) -> AsyncIterator[Door]:
    """Give a connection of psycopg that is awaited."""
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        yield Door(
            connection,
            lambda statement: connection.execute(statement.encode()),
            connection.commit,
            connection.rollback,
            connection.transaction,
        )
        await connection.rollback()


@asynccontextmanager
async def async_alchemy_door(
    dsn: str, driver: str, *, session: bool
) -> AsyncIterator[Door]:
    """Give a connection or a session of SQLAlchemy that is awaited."""
    engine = create_async_engine(url(dsn, driver))
    async with AsyncSession(engine) if session else engine.connect() as bound:
        yield Door(
            bound,
            lambda statement: bound.execute(text(statement)),
            bound.commit,
            bound.rollback,
            bound.begin_nested,
        )
    await engine.dispose()


ASYNC_DOORS: dict[str, Callable[[str], AbstractAsyncContextManager[Door]]] = {
    "psycopg": async_psycopg_door,
    **{
        f"sqlalchemy-{kind}-{driver}": lambda dsn, driver=driver, kind=kind: (  # type: ignore[misc]
            async_alchemy_door(dsn, driver, session=kind == "session")
        )
        for kind in ("connection", "session")
        for driver in ("psycopg", "asyncpg")
    },
}
