"""A hundred threads of one worker take and close recorded tasks: each id once.

The test that the task table of 2009 deserves. The threads rest at no time; each task
does nothing, so what is measured is taking, reading, running and closing a row.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial

import psycopg
from celery import Celery

from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.schedules.filled import drop
from celery_pecker.kernel.clock import pause
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.migrations import migrate
from celery_pecker.kernel.settings import Settings
from celery_pecker.kernel.sql import render
from celery_pecker.outbox import operations
from celery_pecker.outbox.runs.messages import Messages
from celery_pecker.runs import guard
from celery_pecker.schedules.local.outbox_runner import OutboxRunner

ROW = "outbox_hundred"
THREADS = 100
GIVEN_UP = 600.0
FILL = """
insert into {schema}.pecker_outbox (due_at, mode, task, task_id, exchange, routing_key,
    content_type, content_encoding, headers, properties, body, created_at)
select now(), 2, 'bench.nothing', 'id' || n, '', 'q', 'application/json', 'utf-8',
    format('{"id": "id%%s", "task": "bench.nothing"}', n), '{}',
    convert_to(format('[[%%s], {}, {}]', n), 'UTF8'), now()
from generate_series(1, %(rows)s) as n
"""


def run(run: Run) -> None:
    """Measure all of them."""
    rows = run.plan.recorded
    run.trial(ROW, "rows", 10 + rows / 500, partial(hundred, run, rows, run.tell))


def hundred(run: Run, rows: int, tell: Callable[[], None]) -> Sample:
    """Return how many are done a second, and how many ids the log has."""
    dsn, schema = run.servers.dsn, f"bench_{secrets.token_hex(4)}"
    migrate(dsn, schema=schema)
    ran: list[int] = []
    app = Celery("bench", broker="memory://", set_as_current=False)
    app.conf.update(
        pecker_dsn=dsn, pecker_schema=schema, pecker_outbox_history=10 * rows
    )

    def nothing(number: int) -> None:
        ran.append(number)

    app.task(name="bench.nothing", shared=False)(nothing)
    settings = Settings.read(app.conf, main=app.main)
    messages = Messages(lambda _: settings)
    messages.connect()
    guard.install(app, pool_kind="threads", settings=settings, stored=messages)
    service = messages.service("default")
    database = Database.of(settings, role="bench")
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(render(FILL, schema), {"rows": rows})
            operations.set_load(
                *(database,),
                threads=THREADS,
                pause_empty=0.1,
                pause_error=0,
                pause_done=0,
            )
            assert service is not None  # noqa: S101  # every outbox is known
            runner = OutboxRunner(app, service, settings)
            began = time.perf_counter()
            with closing(_Started(runner)):
                while len(ran) < rows or runner.busy:
                    pause(0.05)
                    tell()
                    if time.perf_counter() - began > GIVEN_UP:
                        break
                took = time.perf_counter() - began
            [(logged, distinct)] = connection.execute(
                render(
                    "select count(*), count(distinct id)"
                    " from {schema}.pecker_outbox_done",
                    schema,
                )
            ).fetchall()
    finally:
        database.close()
        messages.close()
        drop(dsn, schema)
    return {
        "threads": THREADS,
        "rows": rows,
        "ran": len(ran),
        "logged": logged,
        "distinct": distinct,
        "seconds": round(took, 1),
        "per_second": round(rows / took),
    }


class _Started:
    """A runner that takes rows until it is closed."""

    def __init__(self, runner: OutboxRunner) -> None:
        self._runner = runner
        runner.start()

    def close(self) -> None:
        """Wait for what runs."""
        self._runner.stop()
        self._runner.join(60.0)
