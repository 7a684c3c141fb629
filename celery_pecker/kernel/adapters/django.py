"""Connections of Django: what `django.db.connection` and `connections[alias]` are."""

import sys
from typing import Any

from celery_pecker.kernel.adapters.adapter import Rows, Statement
from celery_pecker.kernel.errors import NoTransaction, NotRecorded, TransactionAborted


def adapter(connection: Any) -> "DjangoAdapter | None":
    """Return an adapter if it is a connection of Django.

    By what it has: `django.db.connection` stands for one and is none itself.
    """
    if all(hasattr(connection, name) for name in ("alias", "in_atomic_block")):
        return DjangoAdapter(connection)
    return None


def atomic_block(alias: str) -> "DjangoAdapter | None":
    """Return the adapter of the transaction that this thread has open, if it has one.

    That is an atomic block, or what there is always where autocommit is off. None where
    Django is not loaded or not set up, or has no such alias.
    """
    database = sys.modules.get("django.db")
    configured = sys.modules.get("django.conf")
    if database is None or configured is None or not configured.settings.configured:
        return None
    try:
        connection = database.connections[alias]
    except database.utils.ConnectionDoesNotExist:
        return None
    known = connection.connection is not None
    # get_autocommit() would connect.
    commits = connection.autocommit if known else connection.settings_dict["AUTOCOMMIT"]
    alone = commits and not connection.in_atomic_block
    return (
        None
        if alone or connection.vendor != "postgresql"
        else DjangoAdapter(connection)
    )


class DjangoAdapter:
    """A connection of Django, in an atomic block or with autocommit off."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @property
    def database_key(self) -> object:
        """Which database it is: aliases of one process do not change."""
        settings = self._connection.settings_dict
        return tuple(str(settings.get(name)) for name in ("HOST", "PORT", "NAME"))

    @property
    def in_transaction(self) -> bool:
        """Whether an atomic block or, without autocommit, a transaction is open."""
        connection = self._connection
        if connection.in_atomic_block or connection.connection is None:
            return bool(connection.in_atomic_block)
        return bool(connection.connection.info.transaction_status)  # 0: idle

    def require(self) -> None:
        """Refuse a connection without a transaction that can be joined."""
        connection = self._connection
        if connection.vendor != "postgresql":
            raise NotRecorded(
                f"connection {connection.alias!r} is to {connection.vendor}; allowed is"
                " PostgreSQL, where the tables of celery-pecker are"
            )
        if connection.needs_rollback:
            raise TransactionAborted(
                f"the atomic block of connection {connection.alias!r} failed before: it"
                " can only be rolled back"
            )
        if not connection.in_atomic_block and connection.get_autocommit():
            raise NoTransaction(
                f"connection {connection.alias!r} is in autocommit: open a transaction"
                f" with `transaction.atomic(using={connection.alias!r})`, or leave out"
                " connection=…"
            )

    def run(self, statement: Statement) -> Rows:
        """Return the rows of a statement."""
        with self._connection.cursor() as cursor:
            cursor.execute(statement.text, statement.params)
            rows: Rows = cursor.fetchall() if cursor.description else ()
            return rows
