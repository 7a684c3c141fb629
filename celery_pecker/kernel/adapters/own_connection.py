"""A connection of ours as an adapter, for messages that join no transaction."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from celery_pecker.kernel.adapters.adapter import Rows, Statement
from celery_pecker.kernel.database import Database


class OwnAdapter:
    """Runs statements over a connection of ours: each of them commits."""

    in_transaction = True

    def __init__(self, database: Database) -> None:
        self.database = database

    @property
    def database_key(self) -> object:
        """Return which database it is."""
        return self.database.where

    def require(self) -> None:
        """Ask for nothing: no transaction is joined."""

    def run(self, statement: Statement) -> Rows:
        """Return the rows of a statement."""
        return self.database.run(statement.label, **statement.params)

    def transaction(self, several: bool) -> AbstractContextManager[None]:
        """Open one transaction for several statements; a single one is its own."""
        return self.database.transaction() if several else nullcontext()
