"""Work is bounded by what is due, not by what is stored: read it in the plans."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import psycopg
import pytest

from celery_pecker.kernel.sql import render, statements

STORED = 50_000


@pytest.fixture(scope="module")
def stored(postgres_server: object) -> Iterator[psycopg.Connection]:
    """Give a schema with 50,000 entries, an hour overdue."""
    with (
        postgres_server.fresh(migrated=True) as dsn,  # type: ignore[attr-defined]
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        connection.execute(
            "insert into pecker_tasks (name, executed_at)"
            " select 'entry ' || n, now() - interval '1 hour'"
            " from generate_series(1, %s) as n",
            [STORED],
        )
        connection.execute(
            "insert into pecker_pending"
            " select 'entry ' || n, now(), 0, 1, gen_random_uuid(), now()"
            " from generate_series(1, %s) as n",
            [STORED],
        )
        connection.execute("analyze")
        yield connection


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("due", [1, 100, 1_000])
def test_a_claim_never_scans_the_table(
    stored: psycopg.Connection, due: int, mode: str
) -> None:
    """1, 100 or 1,000 due of 50,000: the primary key, custom and generic plan."""
    plan = explain(stored, "claim_due", claim_params(due), mode)
    assert "Seq Scan" not in plan
    assert "pecker_tasks_pkey" in plan
    assert "LockRows" in plan


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("label", ["read_tasks", "count_missed", "confirm"])
def test_what_is_written_by_name_is_found_by_name(
    stored: psycopg.Connection, label: str, mode: str
) -> None:
    """The small statements beside the claim are no scans either."""
    names = [f"entry {n * 49 + 1}" for n in range(100)]
    params = {
        "now": None,
        "names": names,
        "slots": [1] * len(names),
        "epochs": [1] * len(names),
    }
    wanted = {
        "read_tasks": ("now", "names"),
        "count_missed": ("names", "slots"),
        "confirm": ("names", "epochs"),
    }[label]
    plan = explain(stored, label, {key: params[key] for key in wanted}, mode)
    assert "Seq Scan" not in plan


def claim_params(due: int) -> dict[str, object]:
    """Return the parameters of a claim of so many grid entries."""
    return {
        "now": None,
        "holder": uuid.uuid4(),
        "until": datetime(2100, 1, 1, tzinfo=UTC),
        "names": [f"entry {n * 49 + 1}" for n in range(due)],
        "periods": [1_000_000] * due,
        "depths": [1] * due,
        "instants": [None] * due,
        "seen": [None] * due,
        "passed": [0] * due,
        "ahead": [5_000_000] * due,
        "kept": [False] * due,
        "timeouts": [None] * due,
        "versions": [],
    }


def explain(
    connection: psycopg.Connection, label: str, params: Mapping[str, object], mode: str
) -> str:
    """Return the plan of a prepared statement, executed and rolled back."""
    text = render(statements()[label], "public")
    with connection.transaction(force_rollback=True):
        connection.execute(f"set local plan_cache_mode = {mode}")  # a literal of ours
        cursor = psycopg.ClientCursor(connection)
        # EXPLAIN of the text itself cannot show a generic plan: go through PREPARE.
        order: list[str] = []
        for key in params:
            for form in "sb":
                text = text.replace(f"%({key}){form}", f"${len(order) + 1}")
            order.append(key)
        cursor.execute(f"prepare claim as {text}")
        marks = ", ".join(f"%({key})s" for key in order)
        found = cursor.execute(
            f"explain (analyze, costs off) execute claim {marks and f'({marks})'}",
            params,
        ).fetchall()
        connection.execute("deallocate claim")
    return "\n".join(line for (line,) in found)
