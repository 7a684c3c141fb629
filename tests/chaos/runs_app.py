"""An app whose tasks break their word: slow, deaf to the deadline, writing after it.

What happens goes to tables, by the database's clock: `chaos_runs` says which run began
in whose hands, `chaos_writes` what a guard let through, in the order of its fence.
"""

from __future__ import annotations

import json
import os
from datetime import datetime
from typing import Any

import psycopg
from celery import Celery, Task

import celery_pecker.worker
from celery_pecker import deadline, runs
from celery_pecker.deadline import DeadlineExceeded
from celery_pecker.kernel.clock import pause
from celery_pecker.kernel.errors import Overtaken

app = Celery("runs-chaos")
app.conf.update(json.loads(os.environ["PECKER_CHAOS_CONF"]))
celery_pecker.worker.connect()


@app.task(bind=True, name="chaos.run")
def run(self: Task[..., None], pace: float) -> None:
    """Write under the guard for as long as it likes, and once more when told to end."""
    mine = runs.current()
    if mine is None:
        message = "a run that does not know itself"
        raise LookupError(message)
    with psycopg.connect(app.conf.pecker_dsn) as connection:
        number = begin(connection, mine, str(self.request.hostname))
        try:
            for _ in range(20):
                write(connection, mine, after_end=False)
                pause(pace)
                deadline.check()
        except DeadlineExceeded:
            with deadline.shield(1.0):
                write(connection, mine, after_end=True)
        finally:
            with deadline.shield(1.0):
                connection.execute(
                    "update chaos_runs set ended = clock_timestamp() where id = %s",
                    [number],
                )
                connection.commit()


def begin(connection: psycopg.Connection[Any], mine: runs.Run, worker: str) -> int:
    """The run stands in the table; return its number."""
    due: tuple[str, datetime, int, int] = mine.name, mine.due_at, mine.era, mine.epoch
    row = connection.execute(
        "insert into chaos_runs (worker, name, due, era, epoch, attempt, deadline)"
        " values (%s, %s, %s, %s, %s, %s, %s) returning id",
        [worker, *due, mine.attempt, mine.deadline],
    ).fetchone()
    connection.commit()
    assert row is not None
    return int(row[0])


def write(
    connection: psycopg.Connection[Any], mine: runs.Run, *, after_end: bool
) -> None:
    """It is written, or refused because somebody newer is there."""
    try:
        mine.guard(connection)
        connection.execute(
            "insert into chaos_writes (name, epoch, attempt, after_end)"
            " values (%s, %s, %s, %s)",
            [mine.name, mine.epoch, mine.attempt, after_end],
        )
        connection.commit()
    except Overtaken:
        connection.rollback()
        connection.execute(
            "insert into chaos_refusals values (%s, %s)", [mine.name, mine.epoch]
        )
        connection.commit()
