"""The app of the workers under test: tasks that touch a database and say so."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import psycopg
from celery import Celery

import throttle
from celery_pecker.kernel.clock import now, pause
from throttle.meter import meter

FOLDER = Path(os.environ["THROTTLE_TEST_FOLDER"])
DSN = os.environ.get("THROTTLE_TEST_DSN")

app = Celery("throttled")
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=2,
    broker_connection_retry_on_startup=True,
    **json.loads(os.environ["THROTTLE_TEST_CONF"]),
)


def note(line: str) -> None:
    """The line is in the journal, whole, with the time."""
    journal = os.open(FOLDER / "journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(journal, f"{now().timestamp():.4f} {line}\n".encode())
    os.close(journal)


def route(
    task: str, args: list[Any], kwargs: dict[str, Any], headers: dict[str, Any]
) -> object:
    """Tell a tenant by the keyword, a database by the header."""
    if task != "routed":
        return None
    if kwargs.get("tenant") == "broken":
        raise LookupError(args[0])
    return headers.get("database", "main"), kwargs.get("tenant", "")


@app.task(name="free")
def free(name: str) -> None:
    """Nothing holds it."""
    note(name)


@app.task(name="gated", throttle="main")
def gated(name: str, operations: int = 1) -> None:
    """It does so many operations."""
    meter.tally("main").add(operations=operations)
    note(name)


@app.task(name="gated_late", throttle="main", acks_late=True)
def gated_late(name: str) -> None:
    """It is acknowledged when it has run."""
    meter.tally("main").add()
    note(name)


@app.task(name="limited", throttle="main", rate_limit="10/s")
def limited(name: str) -> None:
    """It has a rate limit of its own."""
    meter.tally("main").add()
    note(name)


@app.task(name="other", throttle="other")
def other(name: str) -> None:
    """It goes to another database."""
    meter.tally("other").add()
    note(name)


@app.task(name="routed")
def routed(name: str, *, tenant: str = "") -> None:
    """Its database is told by the route."""
    meter.tally("main").add()
    note(f"{name}{tenant and ' ' + tenant}")


@app.task(name="occupied")
def occupied(name: str) -> None:
    """It goes on until the test opened its gate."""
    note(f"began {name}")
    while not (FOLDER / f"gate-{name}").exists():
        pause(0.02)
    note(name)


@app.task(name="stated", throttle="main")
def stated(name: str, statements: int) -> None:
    """It does so many real statements."""
    for _ in range(statements):
        connection().execute("select 1")
    note(name)


_connections: dict[int, Any] = {}


def connection() -> Any:
    """Return this process' connection, which is counted."""
    if os.getpid() not in _connections:
        made = psycopg.connect(DSN or "", autocommit=True)
        throttle.instrument.psycopg(made, database="main")
        _connections[os.getpid()] = made
    return _connections[os.getpid()]
