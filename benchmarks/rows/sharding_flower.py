"""The pages of sharded jobs in Flower, with a job of 10,000 shards in the middle of it.

Measured as the page of schedules is: from a request to the last byte of its answer, one
after the other, each with an address of its own. The job has four layers; shards of all
codes, 64 of them held by live workers; 500 failed items; beside it stand 200 jobs
that have ended.
"""

from __future__ import annotations

import secrets
from functools import partial

import psycopg
from psycopg import sql

from benchmarks.results import Sample
from benchmarks.rows.flower import times
from benchmarks.run import Run
from benchmarks.schedules.filled import drop
from benchmarks.sharding.field import OURS
from celery_pecker.kernel.migrations import migrate
from celery_pecker.kernel.sql import render

ROW = "sharding_flower"
SHARDS, JOBS = 10_000, 200
ASKED = {
    "the list": "/sharding",
    "its data": "/sharding/data",
    "its data, open jobs": "/sharding/data?open=1",
    "a job's page": "/sharding/job?id=large",
    "a job's data": "/sharding/job/data?id=large",
    "a job's data, a shard chosen": "/sharding/job/data?id=large&shard=5100",
}
FILL = """
insert into {schema}.pecker_jobs
    (task_id, task, stage, outcome, concurrency, options, call, continuation, layer,
     layers, total, submitted_at, planned_at, decided_at, ended_at)
select 'old' || nth, 'ours.nothing', 'ended', 'succeeded', 64, '{}', '', '{}', 1, 1,
    1000, now() - nth * interval '1 minute', now(), now(), now()
from generate_series(1, 200) as nth;

insert into {schema}.pecker_jobs
    (task_id, task, stage, concurrency, options, call, continuation, layer, layers,
     total, submitted_at, planned_at)
values ('large', 'ours.nothing', 'sharding', 64,
    '{"shard_deadline": null, "item_timeout": 300}', '', '{}', 2, 4, 1000000,
    now() - interval '5 minutes', now() - interval '5 minutes');

insert into {schema}.pecker_tickets
    (job, ticket, seq, state, holder, hostname, leased_until)
select job, nth, 7, 'held', 'h', 'w@bench', now() + interval '1 hour'
from {schema}.pecker_jobs, generate_series(1, 64) as nth where task_id = 'large';

insert into {schema}.pecker_shards
    (job, shard, layer, origin, hi, status, ticket, epoch, cursor, done, failed,
     claimed_at, ended_at)
select job, nth, nth / 2500, nth, 100, status,
    case when status in (201, 202) then nth - 4999 end,
    case when status in (201, 202) then 7 else 0 end,
    case status when 100 then 0 when 202 then 40 else 100 end,
    case status when 100 then 0 when 202 then 40 else 99 end, 0,
    case when status > 100 then now() - interval '2 minutes' end,
    case when status in (203, 301, 302, 403) then now() - interval '1 minute' end
from {schema}.pecker_jobs, lateral (
    select nth, case
        when nth >= 5064 then 100 when nth >= 5056 then 201 when nth >= 5000 then 202
        when nth % 97 = 0 then 203 when nth % 89 = 0 then 302 when nth % 83 = 0 then 403
        else 301 end as status
    from generate_series(0, 9999) as nth
) as shard
where task_id = 'large';

insert into {schema}.pecker_layers
    (job, layer, total, shards, open, done, failed, started_at)
select job, nth, 250000, 2500,
    case when nth < 2 then 0 when nth = 2 then 2436 else 2500 end,
    case when nth < 2 then 247500 else 0 end, 0, now() - interval '5 minutes'
from {schema}.pecker_jobs, generate_series(0, 3) as nth where task_id = 'large';

insert into {schema}.pecker_item_errors
    (job, origin, place, shard, layer, code, attempt, type, message, traceback, worker,
     at)
select job, nth, 3, nth, nth / 2500, 302, 1, 'ValueError', 'it is bad',
    repeat('in a line of it ', 100), 'w@bench', now()
from {schema}.pecker_jobs, generate_series(0, 4990, 10) as nth where task_id = 'large'
"""


def run(run: Run) -> None:
    """Measure all pages of one Flower."""
    run.trial(
        ROW,
        f"{SHARDS:,} shards",
        run.plan.seconds()[ROW],
        partial(measure, run),
        shards=SHARDS,
        jobs=JOBS,
    )


def measure(run: Run) -> Sample:
    """Return the times of each page, in ms."""
    dsn, schema = run.servers.dsn, f"bench_{secrets.token_hex(4)}"
    try:
        fill(dsn, schema)
        pages = times(run, OURS, schema, ASKED)
    finally:
        drop(dsn, schema)
    return {"requests": run.plan.requests, "pages": pages}


def fill(dsn: str, schema: str) -> None:
    """The tables are there, full and analysed."""
    migrate(dsn, schema=schema)
    with psycopg.connect(dsn, autocommit=True) as connection:
        for part in FILL.split(";\n"):
            connection.execute(render(part, schema))
        for table in ("jobs", "layers", "shards", "tickets", "item_errors"):
            named = sql.Identifier(schema, f"pecker_{table}")
            connection.execute(sql.SQL("analyze {}").format(named))
