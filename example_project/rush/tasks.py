"""What a reminder does: two statements on the service's database."""

from __future__ import annotations

import threading
from typing import Any

import psycopg

from example_project.rush.app import DATABASE, DSN, app
from example_project.store import statements
from throttle import instrument

_local = threading.local()


def connection() -> psycopg.Connection[Any]:
    """Return the calling thread's connection, whose statements are counted."""
    found: psycopg.Connection[Any] | None = getattr(_local, "connection", None)
    if found is None or found.closed:
        found = psycopg.connect(DSN, autocommit=True, application_name="reminders")
        instrument.psycopg(found, database=DATABASE)
        _local.connection = found
    return found


@app.task(name="example_project.rush.tasks.remind", throttle=DATABASE)
def remind(meeting: int) -> None:
    """Whoever takes part in the meeting was told, once."""
    asked = connection()
    for label in ("people_of_meeting", "record_reminder"):
        asked.execute(statements()[label].encode(), {"meeting": meeting})
