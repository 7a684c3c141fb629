"""What the tables say of a job: when it was where, who holds what."""

from __future__ import annotations

from typing import Any

import psycopg

from benchmarks.results import Sample
from celery_pecker.kernel.sql import render

PARTS = """
select extract(epoch from job.planned_at - job.submitted_at),
    extract(epoch from layer.closed_at - job.planned_at),
    extract(epoch from coalesce(job.ended_at, clock_timestamp()) - layer.closed_at),
    extract(epoch from coalesce(job.ended_at, clock_timestamp()) - job.submitted_at)
from {schema}.pecker_jobs as job,
    lateral (
        select max(closed_at) as closed_at from {schema}.pecker_layers
        where job = job.job
    ) as layer
where job.task_id = %s
"""
HELD = """
select shard.shard from {schema}.pecker_shards as shard
join {schema}.pecker_tickets as ticket
    on ticket.job = shard.job and ticket.ticket = shard.ticket
    and ticket.seq = shard.epoch
where shard.status = 202 and ticket.state = 'held' and ticket.hostname = %s
"""
OPEN = """
select count(*) from {schema}.pecker_shards
where status in (100, 201, 202)
"""


def ask(dsn: str, schema: str, query: str, *given: object) -> list[Any]:
    """Return the rows."""
    named = render(query, schema)
    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute(named, given).fetchall()


def parts(dsn: str, schema: str, task_id: str) -> Sample:
    """Return the seconds that planning, running and closing took."""
    [row] = ask(dsn, schema, PARTS, task_id)
    names = ("plan_s", "run_s", "close_s", "total_s")
    return {
        name: None if value is None else round(float(value), 3)
        for name, value in zip(names, row, strict=True)
    }


def held(dsn: str, schema: str, hostname: str) -> set[int]:
    """Return the shards that a worker runs now."""
    return {row[0] for row in ask(dsn, schema, HELD, hostname)}


def unfinished(dsn: str, schema: str) -> int:
    """Return how many shards have not ended."""
    return int(ask(dsn, schema, OPEN)[0][0])
