"""What a relay claims is found by an index, whatever else lies in the outbox."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from celery_pecker.kernel.sql import statements
from tests.integration.outbox_relay.rows import record
from tests.plans.test_claims_use_their_index import explain

DEFERRED = 500_000


@pytest.fixture(scope="module")
def stored(postgres_server: object) -> Iterator[psycopg.Connection[Any]]:
    """Give an outbox with 500,000 deferred messages and few that are due."""
    with (
        postgres_server.fresh(migrated=True) as dsn,  # type: ignore[attr-defined]
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        connection.execute(
            "insert into pecker_outbox (task, task_id, exchange, routing_key,"
            " content_type, content_encoding, headers, properties, body, created_at,"
            " due_at) select 't', '', '', 'q', '', '', '{}', '{}', '', now(),"
            " now() + interval '1 day' from generate_series(1, %s)",
            [DEFERRED],
        )
        record(connection, 1_200)
        record(connection, 1, delay=-1)
        yield connection


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("analyzed", [False, True])
def test_a_claim_walks_what_is_due(
    stored: psycopg.Connection[Any], mode: str, *, analyzed: bool
) -> None:
    """Not the deferred ones: with statistics, and before there are any."""
    if analyzed:
        stored.execute("analyze")
    params: dict[str, object] = {"now": None, "token": uuid.uuid4()}
    params |= {"holder": uuid.uuid4(), "hold": 30.0, "above": 0}
    plan = explain(stored, "claim_outbox", {**params, "most": 1_000, "bytes": 1}, mode)
    assert "Seq Scan on pecker_outbox " not in plan
    assert "Index Scan using pecker_outbox_ready" in plan
    assert "pecker_outbox_later" in plan
    walked = [line for line in plan.splitlines() if "on pecker_outbox o" in line]
    assert walked
    assert not [line for line in walked if f"rows={DEFERRED}" in line]
    assert "JIT" not in plan, "that it compiles the plan costs more than the claim"


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
def test_messages_of_a_batch_are_found_by_their_ids(
    stored: psycopg.Connection[Any], mode: str
) -> None:
    """No scan for a thousand of them."""
    stored.execute("analyze")
    [first] = stored.execute("select max(id) from pecker_outbox").fetchone() or [0]
    ids = [*range(first - 1_000, first)]
    plan = explain(stored, "read_outbox", {"ids": ids}, mode)
    assert "Seq Scan" not in plan
    assert "pecker_outbox_pkey" in plan


@pytest.mark.parametrize("analyzed", [False, True])
def test_what_people_look_at_costs_no_walk_of_the_whole_table(
    stored: psycopg.Connection[Any], *, analyzed: bool
) -> None:
    """Counts and lists, also of a table with half a million deferred messages."""
    if analyzed:
        stored.execute("analyze")
    counts: dict[str, object] = {"now": None, "most": 1_000, "tasks": 100}
    nobody: dict[str, object] = {"now": None, "ids": None, "tasks": None, "most": 100}
    nobody |= dict.fromkeys(("parked", "until", "queue", "last_error", "state"))
    text = statements()["show_outbox"]
    rows = {key: value for key, value in nobody.items() if f"%({key})s" in text}
    rows |= {"attempts_from": 0, "tries": 2**31, "above": 0}
    for label, params in (
        ("count_outbox", counts),
        ("show_outbox", rows),
        ("show_outbox", {**rows, "parked": True}),
        ("show_outbox", {**rows, "tries": 0, "above": DEFERRED // 2}),
        ("show_outbox", {**rows, "tries": 7, "above": DEFERRED // 2}),
    ):
        plan = explain(stored, label, params, "force_custom_plan")
        assert "Seq Scan on pecker_outbox " not in plan, plan
        assert f"rows={DEFERRED}" not in plan
