"""The tasks: a call is ended, and then it is billed."""

from __future__ import annotations

from typing import Any

import psycopg
from celery import Task

from example_project.billing.app import SERVICE_DSN, app, outbox
from example_project.store import statements


def execute(
    connection: psycopg.Connection[Any], label: str, **params: object
) -> psycopg.Cursor[Any]:
    """Run a labelled statement of the service; return its cursor."""
    return connection.execute(statements()[label].encode(), params)


@app.task(bind=True, name="example_project.billing.tasks.end_call", outbox=True)
def end_call(self: Task[Any, Any], call: int) -> None:
    """End the call and record its bill: both are committed, or neither is."""
    with psycopg.connect(SERVICE_DSN) as connection, connection.transaction():
        execute(connection, "billing_run", task=self.request.id, call=call)
        if execute(connection, "billing_end", call=call).rowcount:
            with outbox.using(connection):
                bill.delay(call)


@app.task(bind=True, name="example_project.billing.tasks.bill", outbox=True)
def bill(self: Task[Any, Any], call: int) -> None:
    """Bill the call; count how often that was done."""
    with psycopg.connect(SERVICE_DSN) as connection, connection.transaction():
        execute(connection, "billing_run", task=self.request.id, call=call)
        execute(connection, "billing_bill", call=call)


def hang_up(connection: psycopg.Connection[Any], caller: str) -> int | None:
    """Hang up one of the caller's live calls; return it, or None if there is none.

    The mark in the call's row and the task that ends it are one transaction.
    """
    with connection.transaction():
        row = execute(connection, "billing_hang_up", caller=caller).fetchone()
        if row is None:
            return None
        with outbox.using(connection):
            end_call.delay(row[0])
        return int(row[0])
