"""The customers' app: stored schedules, and a rule for those that fall silent."""

from __future__ import annotations

import os
from typing import Any

import psycopg
from celery import Celery
from psycopg.conninfo import make_conninfo

from celery_pecker.alarms import Notice
from celery_pecker.schedules import Schedules
from example_project.store import statements

DSN = os.environ.get("CUSTOMERS_DSN", "postgresql://postgres@127.0.0.1:5432/meetings")
REDIS_URL = os.environ.get("CUSTOMERS_REDIS_URL", "redis://127.0.0.1:6379/0")
KEY_PREFIX = os.environ.get("CUSTOMERS_KEY_PREFIX", "")
SCHEMA = os.environ.get("CUSTOMERS_SCHEMA", "public")
SILENT_AFTER = 1.0
"""Seconds without a slot after which an alarm rings; a minute by default."""

app = Celery("customers")
app.conf.update(
    broker_url=REDIS_URL,
    broker_transport_options={"global_keyprefix": KEY_PREFIX} if KEY_PREFIX else {},
    broker_connection_retry_on_startup=True,
    task_ignore_result=True,
    task_default_queue="customers",
    pecker_dsn=DSN,
    pecker_schema=SCHEMA,
    pecker_heartbeat_dir=os.environ.get("CUSTOMERS_HEARTBEATS"),
    pecker_allowed_tasks=["example_project.customers.*"],
    pecker_alarms={"silent": {"after": SILENT_AFTER}},
    pecker_alarms_to={"duty": "example_project.customers.app:page"},
)


def connect() -> psycopg.Connection[Any]:
    """Return a connection to the service's tables, which are beside Pecker's."""
    options = f"-c search_path={SCHEMA}"
    return psycopg.connect(make_conninfo(DSN, options=options), autocommit=True)


def execute(
    connection: psycopg.Connection[Any], label: str, **params: object
) -> psycopg.Cursor[Any]:
    """Run a labelled statement of the service; return its cursor."""
    return connection.execute(statements()[label].encode(), params)


@app.task(name="example_project.customers.app.remind")
def remind(customer: str) -> None:
    """Write down that the customer was reminded."""
    with connect() as connection:
        execute(connection, "customers_remind", customer=customer)


def page(notice: Notice) -> None:
    """Write down who is called, and why."""
    with connect() as connection:
        for subject in notice.subjects:
            execute(connection, "customers_page", event=notice.event, customer=subject)


def save(
    connection: psycopg.Connection[Any], name: str, every: float, *, by: str
) -> None:
    """Store a customer and the customer's schedule: both by the caller's commit."""
    execute(connection, "customers_save", name=name, every=every)
    Schedules(app).set(
        name,
        task=remind.name,
        schedule=every,
        args=[name],
        by=by,
        connection=connection,
    )
