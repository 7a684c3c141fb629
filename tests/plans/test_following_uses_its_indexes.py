"""A look for edits costs what was edited, not what is stored: read it in the plans."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest

from celery_pecker.kernel.sql import render, statements

STORED = 50_000


@pytest.fixture(scope="module")
def stored(postgres_server: object) -> Iterator[psycopg.Connection]:
    """Give a schema with 50,000 stored schedules, not analyzed yet."""
    with (
        postgres_server.fresh(migrated=True) as dsn,  # type: ignore[attr-defined]
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        connection.execute(
            "insert into pecker_tasks (name, executed_at, version)"
            " select 'entry ' || n, now(), 1 from generate_series(1, %s) as n",
            [STORED],
        )
        connection.execute(
            "insert into pecker_schedules (name, task, schedule, version, created_at,"
            "  changed_at, changed_by)"
            " select 'entry ' || n, 'proj.tick', '{\"every\": 60}', 1, now(), now(), ''"
            " from generate_series(1, %s) as n",
            [STORED],
        )
        yield connection


@pytest.mark.parametrize("analyzed", [False, True])
@pytest.mark.parametrize("label", ["read_edits", "load_schedules", "read_schedules"])
def test_nothing_is_read_but_what_is_asked_for(
    stored: psycopg.Connection, label: str, analyzed: bool
) -> None:
    """Before the first ANALYZE and after it, no table is scanned or sorted."""
    if analyzed:
        stored.execute("analyze")
    plan, buffers = explain(stored, label)
    assert "Seq Scan on pecker_schedules" not in plan
    assert "Seq Scan on pecker_tasks" not in plan
    assert buffers < {"read_edits": 50}.get(label, 10_000)


def explain(connection: psycopg.Connection, label: str) -> tuple[str, int]:
    """Return the plan of a statement, and how many pages it read."""
    row = connection.execute("select pg_current_snapshot()::text").fetchone()
    assert row is not None
    params = {
        "now": None,
        "since": row[0],
        "edit": row[0].partition(":")[0],
        "name": "" if label == "read_edits" else "entry 2",
        "local": False,
        "names": [f"entry {n}" for n in range(1, 1_001)],
    }
    text = render(statements()[label], "public")
    lines = (
        psycopg.ClientCursor(connection)
        .execute(f"explain (analyze, costs off, buffers) {text}", params)
        .fetchall()
    )
    plan = "\n".join(line for (line,) in lines)
    read = re.search(r"Buffers: shared hit=(\d+)(?: read=(\d+))?", plan)
    assert read is not None
    return plan, int(read[1]) + int(read[2] or 0)
