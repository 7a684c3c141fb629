"""What Django looks for in a database backend."""

from types import SimpleNamespace
from typing import Any

import psycopg
from django.core.exceptions import ImproperlyConfigured
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.postgresql import base
from django.db.backends.postgresql.psycopg_any import is_psycopg3
from django.db.transaction import Atomic

from celery_pecker.deadline.budget import DeadlineExceeded
from celery_pecker.deadline.clients import psycopg as psycopg_client
from celery_pecker.deadline.interrupter import keep_whole

keep_whole(Atomic.__enter__, Atomic.__exit__, BaseDatabaseWrapper.close)

_DRIVER = {**vars(psycopg), "connect": psycopg_client.Connection.connect}


class Bounded:
    """What is mixed into a backend that stands on psycopg."""

    connection: Any
    in_atomic_block: bool
    Database = SimpleNamespace(**_DRIVER)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not is_psycopg3:
            raise ImproperlyConfigured(
                "the deadline needs psycopg 3; Django has found psycopg2"
            )
        super().__init__(*args, **kwargs)

    def get_connection_params(self) -> dict[str, Any]:
        """Let cursors of Django's own class obey it too."""
        params: dict[str, Any] = super().get_connection_params()  # type: ignore[misc]
        params["cursor_factory"] = psycopg_client.bounded_cursor(
            params["cursor_factory"]
        )
        return params

    def ensure_connection(self) -> None:
        """Replace a connection that was given up; Django would keep it."""
        abandoned = self.connection is not None and self.connection.closed
        if abandoned and not self.in_atomic_block:
            self.close()  # type: ignore[attr-defined]
        super().ensure_connection()  # type: ignore[misc]

    def _commit(self) -> Any:
        """Roll back what may not be committed; Django does so for its own errors."""
        try:
            return super()._commit()  # type: ignore[misc]
        except DeadlineExceeded:
            if self.connection is not None and not self.connection.closed:
                self.connection.rollback()
            raise


class DatabaseWrapper(Bounded, base.DatabaseWrapper):
    """Django's PostgreSQL backend, bounded."""
