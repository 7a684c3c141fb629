"""The sweep and the check on the real tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from celery_pecker import deadline
from celery_pecker.kernel.clock import new_id
from celery_pecker.testing import EmbeddedPostgres
from example_project import tasks
from example_project.pace import STALE
from example_project.parts.fault import Fault
from example_project.store import Store
from tests.integration.example_project.conftest import CALLS, Remote

AGE_ALL = "update calls set checked_at = clock_timestamp() - interval '1 minute'"


def execute(store: Store, statement: str, *params: object) -> list[tuple[Any, ...]]:
    """Run a statement of the test's own."""
    with psycopg.connect(store.dsn, autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), params)
        return cursor.fetchall() if cursor.description else []


def take(store: Store, *, again: float = 60, batch: int = 100) -> list[int]:
    """Return the calls that a sweep takes."""
    rows = store.rows("take_stale_calls", stale=STALE, again=again, batch=batch)
    return [call for (call,) in rows]


def headers(due_at: str, epoch: int) -> dict[str, Any]:
    """Return the headers of a message that was sent for a slot."""
    slot = {"name": "sweep", "due_at": due_at, "era": 0, "epoch": epoch}
    return {"pecker": {**slot, "deadline": None}}


def test_only_calls_not_checked_lately_are_taken(
    store: Store, calls: list[int]
) -> None:
    """Fresh calls and calls that are over are left alone."""
    execute(store, "update calls set checked_at = clock_timestamp()")
    assert take(store) == []
    execute(store, f"{AGE_ALL} where id in (2, 3)")
    execute(store, "update calls set ended_at = now(), end_reason = 'x' where id = 3")
    assert take(store) == [2]


def test_a_call_is_not_taken_while_its_check_is_under_way(
    store: Store, calls: list[int]
) -> None:
    """It is taken again only when that check must have died."""
    execute(store, AGE_ALL)
    assert sorted(take(store)) == calls
    assert take(store) == []
    assert sorted(take(store, again=0)) == calls


def test_the_longest_unchecked_come_first(store: Store, calls: list[int]) -> None:
    """A sweep that may take few takes those in the greatest danger."""
    execute(
        store, "update calls set checked_at = clock_timestamp() - id * interval '1 min'"
    )
    # Without the index the rows lie in another order than that of danger.
    execute(store, "drop index calls_live_by_check")
    assert sorted(take(store, batch=2)) == calls[-2:]


def test_a_sweep_passes_over_what_another_is_taking(
    store: Store, calls: list[int]
) -> None:
    """It neither waits for the other's calls nor takes them."""
    execute(store, AGE_ALL)
    with psycopg.connect(store.dsn) as other:
        other.execute("select from calls where id in (1, 2) for update")
        assert sorted(take(store)) == calls[2:]


def test_a_run_is_recorded_with_the_slot_of_its_message(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Name, due instant, era and epoch come from the header, the winner from pecker."""
    monkeypatch.setattr(tasks, "store", store)
    holder = new_id()
    execute(
        store,
        "insert into pecker_replicas"
        " (holder, host, pid, version, entries, started_at, seen_at)"
        " values (%s, 'here', 4711, '0', 1, now(), now())",
        holder,
    )
    execute(
        store,
        "insert into pecker_tasks (name, executed_at, epoch, holder)"
        " values ('sweep', now(), 7, %s)",
        holder,
    )
    for epoch in (7, 6):
        headed = headers("2026-01-02T03:04:05.678901+00:00", epoch)
        tasks.sweep.apply(headers=headed).get()
    runs = execute(
        store,
        "select name, to_char(due_at at time zone 'utc', 'SS.US'), epoch, won_by, taken"
        " from sweep_runs order by epoch desc",
    )
    assert runs == [
        ("sweep", "05.678901", 7, 4711, 0),
        ("sweep", "05.678901", 6, None, 0),
    ]


def test_the_same_message_run_twice_is_on_record_twice(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A doubled slot cannot hide behind a key of the table."""
    monkeypatch.setattr(tasks, "store", store)
    headed = headers("2026-01-02T03:04:05+00:00", 1)
    same = str(new_id())
    for _ in range(2):
        tasks.sweep.apply(headers=headed, task_id=same).get()
    ((runs, messages),) = execute(
        store, "select count(*), count(distinct task_id) from sweep_runs"
    )
    assert (runs, messages) == (2, 1)


def test_a_check_has_more_time_than_its_sweep(
    store: Store, calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine checks would otherwise be refused, and calls dropped."""
    monkeypatch.setattr(tasks, "store", store)
    left: list[float | None] = []
    monkeypatch.setattr(
        tasks.check,
        "apply_async",
        lambda *_args, **_options: left.append(deadline.remaining()),
    )
    execute(store, AGE_ALL)
    with deadline.within(60):
        tasks.sweep.apply().get()
    assert left == [None] * len(calls)


def test_a_check_asks_all_three_parts_and_says_what_they_answered(
    store: Store, remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers are on record and the call is fresh again."""
    monkeypatch.setattr(tasks, "store", store)
    store.rows(
        "add_parts",
        host=remote.host,
        agent_ports=remote.agents,
        equipment_port=remote.equipment,
        backend_port=remote.backend,
    )
    store.rows("add_calls", stale=STALE)
    execute(store, AGE_ALL)
    remote.control.break_part("agent", 1, Fault.REFUSED)
    remote.control.hold(CALLS, 0.0)
    for call in (1, 2):
        tasks.check.apply((call,)).get()
    checks = execute(
        store, "select call_id, agent, backend, equipment, bad from checks order by 1"
    )
    assert checks == [
        (1, "refused", "gone", "ok", True),
        (2, "ok", "gone", "ok", True),
    ]
    ended = execute(
        store, "select id, end_reason from calls where ended_at is not null"
    )
    assert sorted(ended) == [(1, "dropped"), (2, "dropped")]


def test_a_record_sent_twice_is_one_row(store: Store, calls: list[int]) -> None:
    """A lost reply may be answered by sending the statement again."""
    answers = {"agent": "ok", "backend": "ok", "equipment": "ok", "took": 0.1}
    same = new_id()
    for _ in range(2):
        store.rows("record_check", id=same, call=1, **answers)
    assert execute(store, "select count(*) from checks") == [(1,)]


def test_a_statement_outlives_a_restart_of_postgresql(
    own_postgres: Callable[..., EmbeddedPostgres],
) -> None:
    """The store connects again, as long as its patience lasts."""
    server = own_postgres(fast=True)
    store = Store(server.dsn, patience=10.0)
    before = store.row("database_now")
    server.restart()
    after = store.row("database_now")
    assert before
    assert after
    assert before < after
    store.close()
