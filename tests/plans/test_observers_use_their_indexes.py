"""What hosts ask ten times in a lease is found by indexes, whatever else is stored."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.plans.test_claims_use_their_index import explain

STORED = 50_000
HOSTS = 4
FEW = 20
"""Rows of each sort that a statement is to find."""
LOOKED_AT = 100
"""Observers of a kind that a claim of few looks at."""
FILL = """
insert into pecker_observer_kinds (kind, weight, seen_at) values ('watch', 1, now());
insert into pecker_observer_nodes (node, name, pid, capacity, kinds, state, ttl, since,
    leased_until, started_at)
select md5(n::text)::uuid, 'host ' || n, n, 1000000, '{watch}',
    case n when 5 then 'dead' else 'up' end, interval '1 hour',
    now() - interval '2 hours', now() + interval '1 hour', now()
from generate_series(1, 5) as n;
insert into pecker_observers (name, kind, weight, status, node, last_node, epoch,
    not_before, created_at, modified_at, restart)
select 'held ' || n, 'watch', 1, 'processing', host.node, host.node, 1, now(), now(),
    now(), case when n <= 2 * {few} then 1 end
from generate_series(1, {stored}) as n
cross join lateral (select md5((n % {hosts} + 1)::text)::uuid as node) as host;
insert into pecker_observers (name, kind, weight, status, node, last_node, epoch,
    not_before, created_at, modified_at)
select 'orphan ' || n, 'watch', 1, 'processing', md5('5')::uuid, md5('5')::uuid, 1,
    now(), now(), now()
from generate_series(1, {few}) as n;
insert into pecker_observers (name, kind, weight, not_before, created_at, modified_at,
    parked_at)
select state || n, 'watch', 1,
    case state when 'later' then now() + interval '1 day' else now() end, now(), now(),
    case state when 'parked' then now() end
from generate_series(1, {stored}) as n,
    (values ('later'), ('parked'), ('waits')) as s (state)
where state <> 'waits' or n <= {few};
"""
ALL_WAIT = """
insert into pecker_observers (name, kind, weight, not_before, created_at, modified_at)
select kind || n, kind, 1, now() - interval '1 hour', now(), now()
from generate_series(1, 10000) as n, (values ('watch'), ('other')) as k (kind)
"""
PLANS = pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
NODE = uuid.UUID("c4ca4238-a0b9-2382-0dcc-509a6f75849b")
"""The first host: md5 of 1."""


@pytest.fixture(scope="module")
def stored(postgres_server: object) -> Iterator[psycopg.Connection[Any]]:
    """Give 50,000 that run, 50,000 for later, 50,000 parked, and few to be found."""
    with (
        postgres_server.fresh(migrated=True) as dsn,  # type: ignore[attr-defined]
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        text = FILL.replace("{stored}", str(STORED)).replace("{few}", str(FEW))
        connection.execute(text.replace("{hosts}", str(HOSTS)).encode())
        connection.execute("vacuum analyze pecker_observers, pecker_observer_nodes")
        yield connection


@PLANS
def test_a_pulse_walks_over_no_observers(
    stored: psycopg.Connection[Any], mode: str
) -> None:
    """Whether there is something to do is asked of indexes, one row each."""
    params: dict[str, object] = {"now": None, "node": NODE, "kinds": ["watch"]}
    plan = explain(stored, "pulse_observer_node", {**params, "follows": True}, mode)
    assert "pecker_observers_orders" in plan
    assert "pecker_observers_waiting" in plan
    assert "pecker_observers_held" in plan
    _is_cheap(plan)


@PLANS
def test_a_claim_walks_what_waits(stored: psycopg.Connection[Any], mode: str) -> None:
    """Not what runs, is parked or is for later."""
    params: dict[str, object] = {"now": None, "node": NODE, "kinds": ["watch"]}
    plan = explain(stored, "claim_observers", {**params, "room": 10, "most": 10}, mode)
    assert "pecker_observers_waiting" in plan
    assert "LockRows" in plan
    _is_cheap(plan)


@PLANS
@pytest.mark.parametrize(("room", "most"), [(1_000, FEW), (FEW, 1_000)])
def test_a_claim_walks_no_more_of_a_kind_than_it_may_take(
    stored: psycopg.Connection[Any], mode: str, room: int, most: int
) -> None:
    """After a blackout all observers wait: they are not sorted for each claim."""
    params: dict[str, object] = {"now": None, "node": NODE, "kinds": ["watch", "other"]}
    with stored.transaction(force_rollback=True):
        stored.execute(ALL_WAIT)
        stored.execute("analyze pecker_observers")
        wanted = {**params, "room": room, "most": most}
        plan = explain(stored, "claim_observers", wanted, mode)
    assert "pecker_observers_waiting" in plan
    assert max(map(int, re.findall(r" rows=(\d+)", plan))) <= 2 * LOOKED_AT, plan
    # One of the host, and no more observers than may be taken, of all kinds together.
    locks = re.findall(r"LockRows \(.*?rows=(\d+)(?:\.\d+)? loops=(\d+)", plan)
    assert sum(int(rows) * int(loops) for rows, loops in locks) <= 1 + FEW, plan


@PLANS
def test_orders_are_found_by_themselves(
    stored: psycopg.Connection[Any], mode: str
) -> None:
    """Not among all that the host runs."""
    params: dict[str, object] = {"node": NODE, "most": 1_000}
    plan = explain(stored, "read_observer_orders", params, mode)
    assert "pecker_observers_orders" in plan
    _is_cheap(plan)


@PLANS
def test_what_the_dead_held_is_found_by_their_ids(
    stored: psycopg.Connection[Any], mode: str
) -> None:
    """Not among what the living hold."""
    params: dict[str, object] = {"now": None, "most": 1_000}
    plan = explain(stored, "free_observers", params, mode)
    assert "pecker_observers_held" in plan
    assert "LockRows" in plan
    _is_cheap(plan)


def _is_cheap(plan: str) -> None:
    assert "Seq Scan on pecker_observers" not in plan, plan
    walked = [
        line
        for line in plan.splitlines()
        if "Rows Removed by Filter" in line and int(line.split(":")[1]) > 100
    ]
    assert walked == [], plan
    assert "JIT" not in plan


@PLANS
def test_what_a_host_compares_is_found_by_its_id(
    stored: psycopg.Connection[Any], mode: str
) -> None:
    """Not among what other hosts hold; lives are found by their ids."""
    plan = explain(stored, "sum_observer_epochs", {"node": NODE}, mode)
    assert "pecker_observers_held" in plan
    params: dict[str, object] = {"node": NODE, "ids": [1, 2, 3], "epochs": [1, 1, 1]}
    _is_cheap(explain(stored, "find_lost_lives", params, mode))
