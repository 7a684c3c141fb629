"""The job: dependencies become layers, batches become rows, errors a report."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any

import psycopg

from celery_sharding import Isolate, ItemError, Job, Progress, Shard, layers
from example_project.airports.app import DATABASE, DSN, app, sharding
from example_project.airports.records import records
from example_project.store import statements
from throttle import Gate, instrument

_local = threading.local()


@cache
def gate() -> Gate:
    """Return the gate before the database; one for a process."""
    return Gate(app)


def connection() -> psycopg.Connection[Any]:
    """Return the calling thread's connection, whose statements are counted."""
    found: psycopg.Connection[Any] | None = getattr(_local, "connection", None)
    if found is None or found.closed:
        found = psycopg.connect(DSN, autocommit=True, application_name="airports")
        instrument.psycopg(found, database=DATABASE)
        _local.connection = found
    return found


@sharding.task(
    name="example_project.airports.import",
    size=(50, 500),
    concurrency=4,
    batch=50,
    on_error=Isolate(max_failed="5%"),
    database=DATABASE,
    gate=gate,
)
def import_airports(shard: Shard) -> None:
    """A batch stands in the database, or none of it: then it is halved and tried."""
    with connection().transaction():
        for record in shard:
            connection().execute(statements()[record["kind"]].encode(), record["row"])


@import_airports.pre_process
def plan(job: Job) -> layers.Layers:
    """Return all rows in layers: each after the row that it refers to."""
    del job
    return layers.toposort(records(), key="key", after="after")


@import_airports.notify(every=0.1)
def tell(job: Job, progress: Progress) -> None:
    """A line in the worker's log, each time that another tenth is done."""
    print(f"{job.id}: {progress.percent:.0f} %", flush=True)


@import_airports.post_process
def report(
    job: Job, results: Iterable[Any], errors: Iterable[ItemError]
) -> dict[str, Any]:
    """Return how many rows were refused and why, and a few of them."""
    del job, results
    why: Counter[str] = Counter()
    shown: list[dict[str, str]] = []
    for error in errors:
        reason = error.message.splitlines()[0]
        why[reason] += 1
        if len(shown) < MOST_SHOWN:
            item = error.item or {}
            shown.append({"key": str(item.get("key", "?")), "why": reason})
    return {"why": dict(why), "rows": shown}


MOST_SHOWN = 12
