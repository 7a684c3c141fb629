"""A look for what is wrong costs what is wrong, and not what there is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from celery_pecker.kernel.sql import statements
from tests.plans.test_claims_use_their_index import explain

STORED = 50_000
FEW = 20
"""Rows of each sort that are wrong."""
FILL = """
insert into pecker_tasks (name, executed_at, epoch)
select 'name ' || lpad(n::text, 6, '0'),
    now() - case when n <= {FEW} then interval '1 hour' else interval '1 second' end, 1
from generate_series(1, {STORED}) as n;
insert into pecker_declarations
    (name, task, schedule, delivery, period_us, run, declared_until)
select name, 't', 's', 'at_most_once', 60000000, 'dispatch', now() + interval '1 day'
from pecker_tasks;
insert into pecker_outcomes (name, succeeded, good_era, good_due, bad_era, bad_due,
    bad_at, failed, overrun)
select name, 1, 0, now(), bad.era, bad.at, bad.at, 1, 1
from (select name, row_number() over (order by name) as n from pecker_tasks) as task,
    lateral (
        select case when n <= {FEW} then 1 end as era,
               case when n <= {FEW} then now() end as at
    ) as bad;
insert into pecker_outbox (task, task_id, exchange, routing_key, content_type,
    content_encoding, headers, properties, body, created_at, parked_at)
select 't', '', '', 'q', '', '', '{}', '{}', '', now(),
    case when n <= {FEW} then now() end
from generate_series(1, {STORED}) as n;
insert into pecker_observers (name, kind, weight, not_before, created_at, modified_at,
    parked_at)
select 'observer ' || n, 'watch', 1, now(), now(), now(),
    case when n <= {FEW} then now() end
from generate_series(1, {STORED}) as n;
insert into pecker_jobs (task_id, task, stage, outcome, concurrency, options, call,
    continuation, submitted_at, ended_at)
select n::text, 't', case when n <= {FEW} then 'sharding' else 'ended' end, 'failed', 2,
    '{}', '', '{}', now() - interval '1 day',
    case when n > {FEW} then now() - case when n <= 2 * {FEW} then interval '1 minute'
        else interval '2 days' end end
from generate_series(1, {STORED}) as n;
insert into pecker_alarm_rules (rule, due_at, looked_at, epoch)
values ('silent', now(), now(), 7);
insert into pecker_alarms (rule, subject, kind, state, detail, since, seen_at, times,
    noticed_at, recovered_at)
select 'silent', 'name ' || lpad(n::text, 6, '0'), 'silent',
    case when n <= {FEW} then 'ringing' else 'recovered' end, 'd', now(), now(), 1,
    now() - interval '1 hour', case when n > {FEW} then now() - interval '1 hour' end
from generate_series(1, {STORED}) as n;
insert into pecker_alarm_notices (target, rule, subject, kind, event, detail, since, at,
    held_until)
select 'chat', 'silent', n::text, 'silent', 'ringing', 'd', now(), now(), now()
from generate_series(1, {FEW}) as n;
analyze;
"""
LOOK: dict[str, object] = {
    "now": None,
    "rule": "silent",
    "low": "name 025000",
    "high": "name 025100",
    "after": 60.0,
    "within": 600.0,
    "count": 1,
}
SILENT: dict[str, object] = {"names": [], "instants": [], "held": [], "term": 180.0}
COUNTED: dict[str, object] = {"first": False, "more": 0, "detail": ""}
RECORD: dict[str, object] = {
    "now": None,
    "rule": "silent",
    "kind": "silent",
    "epoch": 7,
    "interval": 10.0,
    "passed": "name 025100",
    "whole": True,
    "storm": 10,
    "severity": "critical",
    "targets": ["log", "chat"],
    "subjects": ["name 000001", "name 040000"],
    "details": ["d"] * 2,
    "sinces": [None] * 2,
    "afters": [0.0] * 2,
    "cooldowns": [0.0] * 2,
    "recoveries": [True] * 2,
}


@pytest.fixture(scope="module")
def stored(postgres_server: object) -> Iterator[psycopg.Connection[Any]]:
    """Give 50,000 of everything, of which few are wrong."""
    with (
        postgres_server.fresh(migrated=True) as dsn,  # type: ignore[attr-defined]
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        text = FILL.replace("{STORED}", str(STORED)).replace("{FEW}", str(FEW))
        connection.execute(text.encode())
        yield connection


@pytest.mark.parametrize(
    ("label", "params"),
    [
        ("find_silent", LOOK | SILENT | {"wanted": False}),
        ("find_stored_slots", LOOK),
        ("find_failing", LOOK),
        ("find_unreported", LOOK),
        ("find_counted", LOOK | COUNTED | {"kind": "misfire"}),
        ("find_counted", LOOK | COUNTED | {"kind": "overrun"}),
        ("find_counted", LOOK | COUNTED | {"kind": "overtaken"}),
        ("find_long_runs", LOOK),
        ("find_hanging_jobs", LOOK),
        ("find_failed_jobs", LOOK),
        ("find_late_jobs", LOOK),
        ("find_outbox_parked", LOOK),
        ("find_observers_parked", {}),
        ("find_observer_notices", LOOK),
        ("record_alarms", RECORD),
        (
            "take_alarm_notices",
            {"now": None, "targets": ["log", "chat"], "hold": 60.0, "most": 20}
            | {"holder": None},
        ),
        (
            "list_alarms",
            {"now": None, "every": False, "most": 100}
            | dict.fromkeys(("state", "rule", "subject"))
            | {"behind": ["", ""]},
        ),
    ],
    ids=lambda one: one if isinstance(one, str) else str(one.get("kind", "")),
)
def test_what_is_well_is_not_walked(
    stored: psycopg.Connection[Any], label: str, params: dict[str, Any]
) -> None:
    """Each statement of a look finds what is wrong, or its part, by an index."""
    text = statements()[label]
    asked = {key: value for key, value in params.items() if f"%({key})s" in text}
    plan = explain(stored, label, asked, "force_custom_plan")  # none is prepared
    assert walked(plan) == [], plan


def walked(plan: str) -> list[str]:
    """Return lines of a plan that read much more than there is to be found."""
    return [
        line
        for line in plan.splitlines()
        if ("Rows Removed by Filter" in line and int(line.split(":")[1]) > 1_000)
        or any(f"rows={n}" in line for n in (STORED, STORED - FEW))
    ]
