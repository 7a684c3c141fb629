"""A sweep, a claim and a summons cost what is due: neither ended nor waiting shards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest

from celery_pecker.kernel.sql import render, statements

PACKAGE = "celery_sharding"
JOBS, SHARDS, OLD = 200, 200, 10_000
"""Jobs that run; their shards, which wait; jobs that ended: 200 of them have as many
shards, ended too."""
JOB = OLD + JOBS // 2
"""One that runs."""
FILL = """
insert into pecker_jobs (task_id, task, stage, outcome, concurrency, options, call,
    continuation, submitted_at, ended_at, total, layers, reported_at)
select 't' || n, 'proj.x', case when n <= {old} then 'ended' else 'sharding' end,
    case when n <= {old} then 'succeeded' end, 64, '{{}}', '', '{{}}', now(),
    case when n <= {old} then now() - interval '1 day' end, 1000, 1, now()
from generate_series(1, {old} + {jobs}) as n;
insert into pecker_layers (job, layer, total, shards, open)
select job, 0, 1000, {shards}, {shards} from pecker_jobs;
insert into pecker_shards (job, shard, layer, status, origin, hi)
select job, s, 0, case when stage = 'ended' then 301 else 100 end, s, 10
from pecker_jobs, generate_series(0, {shards} - 1) as s
where job > {old} - {jobs};
insert into pecker_tickets (job, ticket)
select job, t from pecker_jobs, generate_series(1, 64) as t
where job > {old} - {jobs};
update pecker_tickets set state = 'held', seq = 1, holder = 'w:1:a',
    leased_until = now() + interval '1 hour' where job > {old} and ticket = 1;
update pecker_tickets set state = 'sent', sent_at = now(),
    resend_at = now() + interval '1 hour' where job > {old} and ticket between 2 and 5;
update pecker_shards set status = 202, ticket = 1, epoch = 1
where job > {old} and shard < 2;
vacuum analyze
"""
HELD = 2 * JOBS
HOT: dict[str, tuple[dict[str, Any], int]] = {
    "due_messages": ({"now": None, "resend": 10.0, "most": 200}, JOBS),
    "due_shards": ({"now": None, "slots": 4, "most": 200}, JOBS),
    "due_reports": ({"now": None, "every": 1.0, "resend": 10.0, "most": 200}, JOBS),
    "resend_tickets": ({"now": None, "resend": 10.0, "most": 500}, 0),
    "due_followers": ({"most": 200}, 0),
    "count_jobs": ({"now": None, "holder": UUID(int=1)}, JOBS),
    "over_deadline": ({"now": None, "most": 200}, JOBS),
    "orphaned_shards": ({"now": None, "fresh": 15.0, "most": 100_000}, JOBS),
    "end_stages": ({"now": None, "prefix": "w:1:"}, JOBS),
    "read_totals": ({"now": None, "fresh": 15.0}, JOBS),
    "read_figures": ({"now": None}, JOBS),
    "clock_ahead": ({"now": None}, 0),
    "end_expired_holds": ({"now": None, "job": None, "most": 100}, JOBS),
    "free_orphans": ({"jobs": None, "died": True, "over": None, "shard": None}, HELD),
    "read_job_state": ({"job": JOB}, 2),
    "read_progress": ({"job": JOB}, 2),
    "send_again": ({"now": None, "job": JOB, "resend": 10.0}, 1),
    "tickets_to_publish": ({"now": None, "job": JOB, "slots": 4, "resend": 10.0}, 64),
    "take_ticket": (
        {
            "now": None,
            "job": JOB,
            "ticket": 2,
            "seq": 0,
            "holder": "h",
            "hostname": "w",
            "lease": 15.0,
        },
        1,
    ),
    "claim_shards": (
        {
            "now": None,
            "job": JOB,
            "ticket": 1,
            "seq": 1,
            "lease": 15.0,
            "layer": 0,
            "after": -1,
            "most": 20,
            "hostname": "w",
        },
        2,
    ),
    "free_ticket": (
        {
            "now": None,
            "job": JOB,
            "ticket": 1,
            "seq": 1,
            "state": "idle",
            "wake_in": 1.0,
            "resend": None,
        },
        2,
    ),
}
"""Statements of each sweep and of each slice: their parameters, and how many rows they
may look at in vain."""
LARGE = {"pecker_shards", "pecker_tickets", "pecker_jobs", "pecker_layers"}


@pytest.fixture(scope="module")
def stored(postgres_server: object) -> Iterator[psycopg.Connection]:
    """Give a schema with 200 jobs that run and 10,000 that have ended."""
    with (
        postgres_server.fresh(migrated=True) as dsn,  # type: ignore[attr-defined]
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        for statement in FILL.format(jobs=JOBS, shards=SHARDS, old=OLD).split(";\n"):
            connection.execute(statement.encode())
        yield connection


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("label", HOT)
def test_what_is_not_due_is_not_looked_at(
    stored: psycopg.Connection, label: str, mode: str
) -> None:
    """No large table is scanned, and no node throws away more than it should see."""
    params, most = HOT[label]
    plan = explain(stored, label, params, mode)
    scanned, thrown = [], [0]
    for node in nodes(plan):
        if node["Node Type"] == "Seq Scan" and node["Actual Loops"]:
            scanned.append(node["Relation Name"])
        thrown.append(node.get("Rows Removed by Filter", 0))
    assert LARGE.isdisjoint(scanned)
    assert max(thrown) <= most


LARGEST = """
insert into pecker_jobs (task_id, task, stage, outcome, concurrency, options, call,
    continuation, submitted_at, ended_at, total, layers)
select 't' || n, 'proj.x', case when n < 200 then 'ended' else 'sharding' end,
    case when n < 200 then 'succeeded' end, 64, '{}', '', '{}', now(),
    case when n < 200 then now() end, 1000, 1
from generate_series(1, 200) as n;
insert into pecker_layers (job, layer, total, shards, open)
select job, 0, 50000, 5000, case when stage = 'ended' then 0 else 5000 end
from pecker_jobs;
insert into pecker_shards (job, shard, layer, origin, hi, cursor, done)
select 200, s, 0, s, 10, s % 2, s % 2 from generate_series(0, 4999) as s;
vacuum analyze
"""


def test_a_list_looks_at_the_shards_of_a_large_job_once(postgres_server: Any) -> None:
    """Not once for each job beside it that has ended."""
    params = {
        "now": None,
        "task_id": None,
        "before": None,
        "open_only": False,
        "search": "",
        **dict.fromkeys(("task", "state", "until")),
        "most": 51,
        "fresh": 15.0,
    }
    with (
        postgres_server.fresh(migrated=True) as dsn,
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        for statement in LARGEST.split(";\n"):
            connection.execute(statement.encode())
        plan = explain(connection, "list_jobs", params, "force_custom_plan")
        seen = sum(
            node["Actual Loops"]
            * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
            for node in nodes(plan)
            if node.get("Relation Name") == "pecker_shards"
        )
    assert 2500 <= seen <= 5000


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Give the nodes of a plan."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def explain(
    connection: psycopg.Connection, label: str, params: dict[str, Any], mode: str
) -> dict[str, Any]:
    """Return the plan of a prepared statement, executed and rolled back."""
    text = render(statements(PACKAGE)[label], "public").replace("%%", "%")
    for nth, key in enumerate(params, 1):
        for form in "sb":
            text = text.replace(f"%({key}){form}", f"${nth}")
    marks = ", ".join(f"%({key})s" for key in params)
    with connection.transaction(force_rollback=True):
        connection.execute(f"set local plan_cache_mode = {mode}".encode())
        cursor = psycopg.ClientCursor(connection)
        cursor.execute(f"prepare hot as {text}".encode())
        asked = f"explain (analyze, format json) execute hot ({marks})"
        row = cursor.execute(asked.encode(), params).fetchone()
        connection.execute("deallocate hot")
    assert row is not None
    plan: dict[str, Any] = row[0][0]["Plan"]
    return plan
