"""10,000 jobs are open and a ticket is lost: when is it found, what does it cost?

Each job has a shard that waits and a ticket whose message is in the queue; nobody runs
them. Of one job in the middle the ticket is held by a process that is dead, and of
another its message is long overdue. Sweeps follow one another as their schedule has
them; a ticket is found when its message is sent once more. Beside it the data of
Flower's list over the same tables.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from benchmarks.results import Sample
from benchmarks.rows.flower import times
from benchmarks.run import Run
from benchmarks.sharding import ledger, ours
from benchmarks.sharding.field import OURS, Field
from celery_pecker import deadline
from celery_pecker.kernel.sql import render
from celery_sharding.model import Options
from celery_sharding.policies import as_json
from celery_sharding.sweeper import sweep

ROW = "sharding_open"
PERIOD = 1.0
GIVEN_UP = 120.0
LIST = {
    "the list's data": "/sharding/data",
    "the list's data, open jobs": "/sharding/data?open=1",
}
FILL = """
insert into {schema}.pecker_jobs
    (task_id, task, stage, concurrency, options, call, continuation, layers, total,
     submitted_at, planned_at)
select 'open' || nth, 'ours.nothing100', 'sharding', 64, %(options)s,
    decode(repeat('20', 300), 'hex'), '{}', 1, 10, now(), now()
from generate_series(1, %(jobs)s) as nth;
insert into {schema}.pecker_layers (job, layer, total, shards, open, started_at)
select job, 0, 10, 1, 1, now() from {schema}.pecker_jobs;
insert into {schema}.pecker_shards (job, shard, layer, origin, hi)
select job, 0, 0, 0, 10 from {schema}.pecker_jobs;
insert into {schema}.pecker_executors
    (hostname, slots, queues, started_at, seen_at)
values ('w@bench', 4, '{}', now(), now() + interval '1 hour');
insert into {schema}.pecker_tickets (job, ticket, state, sent_at, wake_at)
select job, 1, 'sent', now() + interval '1 hour', now() from {schema}.pecker_jobs;
update {schema}.pecker_tickets set state = 'held', seq = 1, holder = 'dead',
    sent_at = null, wake_at = null, leased_until = now() where job = %(jobs)s / 2;
update {schema}.pecker_tickets set sent_at = now() - interval '1 hour',
    wake_at = now() - interval '1 hour' where job = %(jobs)s / 2 + 1
"""
FOUND = """
select job from {schema}.pecker_tickets where state = 'sent'
    and job in (%(jobs)s / 2, %(jobs)s / 2 + 1) and sent_at between %(from)s and now()
"""


def run(run: Run) -> None:
    """Measure with so many open jobs."""
    jobs = run.plan.open
    run.trial(ROW, f"{jobs:,} open jobs", 60, partial(measure, run, jobs), jobs=jobs)


def measure(run: Run, jobs: int) -> Sample:
    """Return when both were found, what a sweep took, and the list of Flower."""
    dsn = run.servers.dsn
    with Field(run.servers, run.tell) as field:
        fill(dsn, field.name, jobs)
        app: Any = ours.build(field.given())
        [[began]] = ledger.ask(dsn, field.name, "select now()")
        lost: dict[str, float] = {}
        took: list[float] = []
        first = time.perf_counter()
        while len(lost) < 2 and time.perf_counter() - first < GIVEN_UP:
            at = time.perf_counter()
            with deadline.within(PERIOD):
                sweep(app)
            took.append(time.perf_counter() - at)
            for name in _found(dsn, field.name, jobs, began):
                lost.setdefault(name, round(time.perf_counter() - first, 2))
            field.rest(max(0.0, PERIOD - took[-1]))
        app.close()
        pages = times(run, OURS, field.name, LIST)
    return {
        "found_s": {name: lost.get(name) for name in ("held", "sent")},
        "given_up_s": GIVEN_UP,
        "sweeps": len(took),
        "sweep_ms": round(sum(took) / len(took) * 1e3, 1),
        "requests": run.plan.requests,
        "pages": pages,
    }


def fill(dsn: str, schema: str, jobs: int) -> None:
    """The tables are full and analysed."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = psycopg.ClientCursor(connection)
        for part in FILL.split(";\n"):
            cursor.execute(
                render(part, schema),
                {"jobs": jobs, "options": Jsonb(as_json(Options()))},
            )
        for table in ("jobs", "layers", "shards", "tickets"):
            connection.execute(render(f"analyze {{schema}}.pecker_{table}", schema))


def _found(dsn: str, schema: str, jobs: int, began: object) -> list[str]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        named = render(FOUND, schema)
        rows = connection.execute(named, {"jobs": jobs, "from": began}).fetchall()
    return ["held" if job == jobs // 2 else "sent" for (job,) in rows]
