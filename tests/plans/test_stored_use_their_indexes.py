"""Edits and listings cost the same, however many schedules are stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.plans.test_claims_use_their_index import explain

STORED = 50_000
FILL = """
insert into pecker_schedules (name, task, schedule, version, created_at, changed_at,
    changed_by, removed_at)
select 'name ' || lpad(n::text, 6, '0'), 'proj.task', '{"every": 60}', 1, now(), now(),
    'ann', case when mod(n, 10) = 0 then now() end
from generate_series(1, %(stored)s::integer) as n;
"""
HOT = """
insert into pecker_tasks (name, executed_at, version)
select name, now(), 1 from pecker_schedules;
"""
COLD = """
insert into pecker_declarations (name, task, schedule, delivery, declared_until, stored)
select name, task, schedule::text, 'at_most_once', 'infinity', true
from pecker_schedules;
"""
CHANGES = """
insert into pecker_schedule_changes (name, version, change, changed_at, changed_by)
select name, 1, 'created', now(), 'ann' from pecker_schedules, generate_series(1, 3);
"""
AROUND = """
insert into pecker_pending (name, due_at, era, epoch, holder, claimed_at)
select name, now(), 0, 1, gen_random_uuid(), now() from pecker_schedules;
insert into pecker_outcomes (name) select name from pecker_schedules;
insert into pecker_history (name, first_due, era, holder, last_due, written_at, due_us,
    epoch, at_us, report)
select name, now(), 0, gen_random_uuid(), now(), now(), '{}', '{}', '{}', '{}'
from pecker_schedules;
"""
"""What hangs on the name of an entry: slots on their way, outcomes, reports."""
PLANS = pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
NAME = "name 025001"
RENAME: dict[str, object] = {
    "old": NAME,
    "new": "another",
    "owns": True,
    "version": 3,
    "gone": 2,
    "at": "2026-01-01T00:00:00Z",
    "by": "ann",
    "described": "every minute",
    "delivery": "at_most_once",
    "period": 60_000_000,
    "timeout": None,
    "executed_at": "2026-01-01T00:00:00Z",
    "ran": True,
    "asked": [],
    "definition": "{}",
}


@pytest.fixture(scope="module")
def stored(postgres_server: object) -> Iterator[psycopg.Connection[Any]]:
    """Give 50,000 stored schedules, with their hot rows and their history."""
    with (
        postgres_server.fresh(migrated=True) as dsn,  # type: ignore[attr-defined]
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        connection.execute(FILL, {"stored": STORED})
        for text in (HOT, COLD, CHANGES, AROUND, "vacuum analyze"):
            connection.execute(text)
        yield connection


@PLANS
@pytest.mark.parametrize(
    ("label", "params"),
    [
        ("lock_entries", {"names": [NAME]}),
        ("read_stored", {"now": None, "names": [NAME]}),
        ("pause_entry", {"now": None, "name": NAME, "paused": True, "by": None}),
        ("read_schedule_changes", {"name": NAME, "most": 100}),
        ("find_underway", {"name": NAME}),
        ("clear_name", {"name": NAME}),
        ("rename_schedule", RENAME),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_is_asked_of_one_name_walks_to_it(
    stored: psycopg.Connection[Any], label: str, params: dict[str, Any], mode: str
) -> None:
    """By the keys of all tables that are asked."""
    _is_cheap(explain(stored, label, params, mode))


@pytest.mark.parametrize("label", ["lock_entries", "read_stored", "write_schedules"])
def test_an_edit_of_a_thousand_walks_to_them(
    stored: psycopg.Connection[Any], label: str
) -> None:
    """In all tables that it reads and writes; nothing is prepared on the server."""
    names = [f"name {n:06}" for n in range(1, 1_001)]
    one = {"schedule": "{}", "args": "[]", "kwargs": "{}", "options": "{}"}
    one |= {"task": "t", "by": "ann", "described": "", "delivery": "at_most_once"}
    one |= {"policies": "{}", "run": "dispatch", "change": "changed"}
    more = {"version": 2, "at": "2026-01-01T00:00:00Z", "once": False, "asked": []}
    rows = json.dumps([{"name": name, **one, **more} for name in names])
    params: dict[str, dict[str, object]] = {
        "lock_entries": {"names": names},
        "read_stored": {"names": names, "now": None},
        "write_schedules": {"rows": rows},
    }
    _is_cheap(explain(stored, label, params[label], "force_custom_plan"))


@PLANS
def test_a_page_begins_where_the_one_before_ended(
    stored: psycopg.Connection[Any], mode: str
) -> None:
    """And ends with its last row."""
    params = {"now": None, "search": None, "task": None, "names": None}
    page: dict[str, object] = {**params, "after": NAME, "most": 100}
    _is_cheap(explain(stored, "list_schedules", page, mode))


def test_rows_of_some_names_are_found_by_them(
    stored: psycopg.Connection[Any],
) -> None:
    """As pages ask for those that they show; nothing is prepared on the server."""
    params = {"now": None, "search": None, "task": None, "after": None}
    names = [f"name {n:06}" for n in range(100, 200)]
    asked: dict[str, object] = {**params, "names": names, "most": 1_000}
    _is_cheap(explain(stored, "list_schedules", asked, "force_custom_plan"))


def _is_cheap(plan: str) -> None:
    assert "Seq Scan on pecker_" not in plan.replace("Seq Scan on pecker_owner", ""), (
        plan
    )
    walked = [
        line
        for line in plan.splitlines()
        if "Rows Removed by Filter" in line and int(line.split(":")[1]) > 100
    ]
    assert walked == [], plan
