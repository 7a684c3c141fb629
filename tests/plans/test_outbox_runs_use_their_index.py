"""A claim does not walk over what other tasks have, or what is due later."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.plans.test_claims_use_their_index import explain

STORED = 50_000
FILL = """
insert into pecker_outbox (due_at, mode, task, task_id, exchange, routing_key,
    content_type, content_encoding, headers, properties, body, created_at, attempt)
select case when kind = 'later' then now() + interval '1 day' else now() end,
    mode, kind || mode, 'id' || n, '', 'q', 'application/json', 'utf-8', '{}', '{}',
    '', now(), case when n % 2 = 0 then 1 end
from generate_series(1, %(stored)s) as n, (values (1), (2)) as m (mode),
    (values ('later'), ('backlog')) as k (kind);
insert into pecker_outbox (due_at, mode, task, task_id, exchange, routing_key,
    content_type, content_encoding, headers, properties, body, created_at)
select now(), mode, 'urgent' || mode, 'u' || n, '', 'q', 'application/json', 'utf-8',
    '{}', '{}', '', now()
from generate_series(1, 10) as n, (values (0), (1), (2)) as m (mode);
"""
HOLDS = [60.0, 120.0, 240.0]
PLANS = pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])


@pytest.fixture(scope="module")
def stored(postgres_server: object) -> Iterator[psycopg.Connection]:
    """Give a table with backlogs, what is for later, and ten that are urgent."""
    with (
        postgres_server.fresh(migrated=True) as dsn,  # type: ignore[attr-defined]
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        cursor = psycopg.ClientCursor(connection)
        cursor.execute(FILL.replace("n % 2", "n %% 2"), {"stored": STORED})
        connection.execute("vacuum analyze pecker_outbox")
        yield connection


@PLANS
@pytest.mark.parametrize("only", [None, ["urgent1"]])
def test_a_claim_of_pushes_walks_what_it_takes(
    stored: psycopg.Connection, only: list[str] | None, mode: str
) -> None:
    """Each task by itself, in the index; neither a sort nor a scan of the table."""
    params: dict[str, object] = {"now": None, "only": only, "most": 100, "holds": HOLDS}
    _is_cheap(explain(stored, "claim_outbox_pushes", params, mode))


@PLANS
def test_a_worker_takes_rows_of_its_tasks_only(
    stored: psycopg.Connection, mode: str
) -> None:
    """The backlog of another task is not walked over."""
    params: dict[str, object] = {
        "now": None,
        "tasks": ["urgent2", "later2"],
        "lasts": [20, 20],
        "floors": [0.0, 0.0],
        "most": 10,
        "holds": HOLDS,
    }
    _is_cheap(explain(stored, "take_outbox_runs", params, mode))


@PLANS
@pytest.mark.parametrize("label", ["start_outbox_run", "end_outbox_run"])
def test_a_run_starts_and_ends_by_its_row(
    stored: psycopg.Connection, label: str, mode: str
) -> None:
    """By the primary key."""
    params: dict[str, object] = {"now": None, "id": 7, "epoch": 0}
    if label == "start_outbox_run":
        params |= {"task_id": "id7", "floor": 0.0, "last": 20, "holds": HOLDS}
    else:
        params |= {"emergency": False, "kept": 100}
    plan = explain(stored, label, params, mode)
    assert "Seq Scan on pecker_outbox " not in plan
    assert "pecker_outbox_pkey" in plan


def _is_cheap(plan: str) -> None:
    assert "Seq Scan on pecker_outbox" not in plan
    assert "pecker_outbox_runs" in plan
    assert "Sort" not in plan
    assert "LockRows" in plan
    walked = [
        line
        for line in plan.splitlines()
        if "Rows Removed by Filter" in line and int(line.split(":")[1]) > 100
    ]
    assert walked == [], plan
