"""A backend of PostgreSQL that is at work for as long as a test wants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg import pq

LOCK = 8585
"""An advisory lock of the tests: who waits for it is active."""


@contextmanager
def at_work(dsn: str) -> Iterator[int]:
    """Give the process id of a backend that waits for the lock, and so is active."""
    connection = pq.PGconn.connect(dsn.encode())
    assert connection.status == pq.ConnStatus.OK, connection.get_error_message()
    try:
        connection.send_query(f"select pg_advisory_lock_shared({LOCK})".encode())
        connection.flush()
        yield connection.backend_pid
    finally:
        connection.finish()
