"""A stored schedule gets another name: what goes with it, and what is refused."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, event

from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import (
    InvalidField,
    PeckerError,
    SlotUnderway,
    UnknownSchedule,
    VersionConflict,
)
from celery_pecker.schedules import Schedules
from celery_pecker.schedules.overview.reader import Overview
from celery_pecker.testing import eventually
from celery_pecker.testing.manual import ManualClock
from tests.integration.outbox.doors import ASYNC_DOORS, DOORS, Door
from tests.integration.schedules.stored import follower
from tests.integration.stored_schedules.conftest import EVERY, Desk, make_app
from tests.integration.stored_schedules.test_transactions import counts

SECOND = timedelta(seconds=1)
WAITS = "select count(*) from pg_locks where not granted"
OUTCOMES = "select name, succeeded from pecker_outcomes"


def test_definition_last_run_pause_and_history_go_with_it(desk: Desk) -> None:
    """All but the name and the version is as it was; the old name is free."""
    desk.set(schedule=60, args=[1], options={"queue": "slow"}, timeout=5, by="ann")
    before = desk.set(schedule=60, args=[2], by="ann")
    last = desk.won("report", 5 * SECOND)
    desk.sql("update pecker_tasks set missed = 3, epoch = 99")
    desk.schedules.pause("report", by="ann")
    row = desk.schedules.rename("report", "monthly", by="bob")
    assert row == desk.schedules.get("monthly")
    assert (row.name, row.version, row.changed_by) == ("monthly", 3, "bob")
    assert (row.args, row.options, row.policies) == ([2], {}, {})
    assert (row.schedule, row.created_at) == (before.schedule, before.created_at)
    assert (row.last_slot, row.paused) == (last, True)
    assert desk.hot("monthly") == (last, 99, True, 3)
    assert desk.schedules.get("report") is None
    assert [one.name for one in desk.schedules.list()] == ["monthly"]
    [missed] = desk.sql("select sum(missed), max(missed) from pecker_tasks")
    assert missed == (3, 3)
    [renamed, *others] = desk.schedules.history("monthly")
    assert (renamed.change, renamed.other_name) == ("renamed", "report")
    assert renamed.definition is not None
    assert renamed.definition["args"] == [2]
    assert [one.change for one in others] == ["paused", "changed", "created"]
    [gone] = desk.schedules.history("report")
    assert (gone.change, gone.version, gone.other_name) == ("renamed", 3, "monthly")


def test_reports_go_with_it_and_those_of_the_new_name_are_forgotten(desk: Desk) -> None:
    """The pages of runs, and their sums."""
    desk.set()
    desk.set("monthly")
    desk.schedules.remove("monthly")
    for name, count in (("report", 5), ("monthly", 7)):
        desk.sql(
            "insert into pecker_outcomes (name, succeeded) values (%s, %s)", name, count
        )
        desk.sql(
            "insert into pecker_history (name, first_due, era, holder, host, last_due,"
            " written_at, due_us, epoch, at_us, report) values (%s, 'epoch', 0,"
            " '00000000-0000-0000-0000-000000000000', 'h', 'epoch', 'epoch',"
            " '{0}', %s, '{0}', '{1}')",
            name,
            [count],
        )
    desk.schedules.rename("report", "monthly")
    assert desk.sql("select name, succeeded from pecker_outcomes") == [("monthly", 5)]
    assert desk.sql("select name, epoch from pecker_history") == [("monthly", [5])]


REPORT = (
    "insert into pecker_history (name, first_due, era, holder, host, last_due,"
    " written_at, due_us, epoch, at_us, report) values (%s, 'epoch', 0,"
    " '00000000-0000-0000-0000-000000000000', 'h', 'epoch', 'epoch', '{0}', %s, '{0}',"
    " '{1}')"
)
COUNT = (
    "insert into pecker_outcomes as kept (name, succeeded) values (%s, %s)"
    " on conflict (name) do update set succeeded = kept.succeeded + excluded.succeeded"
)


@pytest.mark.parametrize("label", ["clear_name", "rename_schedule"])
@pytest.mark.parametrize("commits", ["before", "beside"])
def test_a_report_of_the_new_name_does_not_fail_a_rename(
    desk: Desk, label: str, commits: str
) -> None:
    """A replica writes its page once more; the transaction is the caller's."""
    desk.set()
    desk.sql(REPORT, "report", [5])
    desk.sql(COUNT, "report", 5)
    reports = [psycopg.connect(desk.dsn, options="-c lock_timeout=500") for _ in "12"]

    engine = create_engine(desk.dsn.replace("://", "+psycopg://", 1))

    @event.listens_for(engine, "before_cursor_execute")
    def between(_connection: Any, _cursor: Any, query: str, *_: object) -> None:
        """Report of the new name just before a statement of the rename."""
        if f"celery_pecker:{label}" in query:
            for statement, connection in zip((REPORT, COUNT), reports, strict=True):
                many = [7] if statement is REPORT else 7
                with suppress(psycopg.errors.LockNotAvailable):
                    connection.execute(statement.encode(), ["monthly", many])
                if commits == "before":
                    connection.commit()
            if commits == "beside":
                ending.start()
            came.append(label)

    def end() -> None:
        eventually(lambda: desk.sql(WAITS) != [(0,)] or renamed.is_set(), 60.0)
        for connection in reports:
            connection.commit()

    came: list[str] = []
    renamed = threading.Event()
    ending = threading.Thread(target=end)
    with engine.begin() as joined:
        desk.schedules.rename("report", "monthly", connection=joined)
        renamed.set()
        joined.exec_driver_sql("select 1")
    assert came == [label]
    if commits == "beside":
        ending.join()
    engine.dispose()
    for connection in reports:
        connection.close()
    assert desk.sql("select name, epoch from pecker_history") == [("monthly", [5])]
    [(name, succeeded)] = desk.sql(OUTCOMES)
    assert (name, succeeded) == ("monthly", 5)


@pytest.mark.parametrize("removed", [False, True], ids=["new name", "removed name"])
def test_a_slot_that_is_due_runs_once_under_the_new_name(
    desk: Desk, *, removed: bool
) -> None:
    """On replicas that knew the old one; and those after it on their grid."""
    taken = None
    if removed:  # later than the slot that is due: it would pass for one of these
        desk.set("monthly", schedule=7)
        taken = desk.won("monthly", SECOND)
        desk.schedules.remove("monthly")
    desk.set(schedule=60, args=[1])
    last = desk.won("report", 90 * SECOND)
    clock = ManualClock(last + 30 * SECOND)
    with follower(desk.dsn, clock) as (one, way), follower(desk.dsn, clock) as (two, _):
        replicas = (one, two)
        for replica in replicas:
            replica.pass_time(0)
        row = desk.schedules.rename("report", "monthly")
        clock.step((row.changed_at - clock.now()).total_seconds())
        for _ in range(80):
            for replica in replicas:
                replica.turn()
            clock.advance_us(500_000)
        sent = [run for replica in replicas for run in replica.publisher.sent]
        assert {run.name for run in sent} == {"monthly"}
        first = last + 60 * SECOND if taken is None else taken + SECOND / 1_000_000
        assert sorted(str(run.header["due_at"]) for run in sent) == [
            first.isoformat(),
            (last + 120 * SECOND).isoformat(),
        ]
        assert way.built["monthly"].args == (1,)
        assert len({run.task_id for run in sent}) == 2


def test_there_and_back_no_slot_comes_twice(desk: Desk) -> None:
    """A slot that was won under one name is not due under another, nor by its first."""
    desk.set(schedule=60)
    last = desk.won("report", 10 * SECOND)
    for name, to in (("report", "other"), ("other", "third"), ("third", "report")):
        assert desk.schedules.rename(name, to).last_slot == last
    assert desk.hot()[0] == last
    assert [one.name for one in desk.schedules.list()] == ["report"]
    changes = [(one.change, one.other_name) for one in desk.schedules.history("report")]
    assert changes[0] == ("renamed", "third")
    assert ("created", None) in changes


def test_a_slot_before_the_last_of_the_new_name_is_asked_for(desk: Desk) -> None:
    """As itself it would pass for one that the name has had."""
    desk.set("monthly", schedule=1)
    taken = desk.won("monthly", SECOND)
    desk.schedules.remove("monthly")
    desk.set(schedule=60)
    last = desk.won("report", 70 * SECOND)
    row = desk.schedules.rename("report", "monthly")
    assert row.last_slot is None
    executed_at = desk.hot("monthly")[0]
    assert executed_at == last + 60 * SECOND
    [asked] = desk.asked("monthly")
    assert asked > taken


def test_slots_that_go_by_the_name_count_anew(desk: Desk) -> None:
    """A splay has another place for another name: none lies before the rename."""
    desk.set(schedule={"every": 3600, "splay": 3600})
    row = desk.schedules.rename("report", "monthly")
    assert row.next_due is not None
    assert desk.hot("monthly")[0] >= row.changed_at


def test_what_is_asked_for_goes_with_it(desk: Desk) -> None:
    """Nobody had taken it yet; the next one that asks finds the new name."""
    desk.set(schedule=60)
    desk.won("report", 90 * SECOND)
    desk.set(schedule={"cron": "0 4 1 1 *"})
    asked = desk.asked()
    assert len(asked) == 1
    desk.schedules.rename("report", "monthly")
    assert (desk.asked(), desk.asked("monthly")) == ([], asked)


def test_a_slot_that_is_being_sent_is_waited_for(desk: Desk) -> None:
    """Its holder confirms it under the old name: nothing is written before."""
    row = desk.set(delivery="at_least_once")
    desk.sql(
        "insert into pecker_pending (name, due_at, era, epoch, holder, claimed_at)"
        " values ('report', 'epoch', 0, 7, gen_random_uuid(), clock_timestamp())"
    )
    with pytest.raises(SlotUnderway, match="on its way to the broker"):
        desk.schedules.rename("report", "monthly")
    assert desk.schedules.list() == [row]
    assert not desk.sql("select 1 from pecker_tasks where name = 'monthly'")
    desk.sql("delete from pecker_pending")
    assert desk.schedules.rename("report", "monthly").version == 2


def test_what_is_refused_leaves_nothing_in_the_callers_transaction(
    desk: Desk,
) -> None:
    """It may go on and commit: a slot on its way, and a definition that never runs."""
    desk.set()
    desk.set("gone")
    desk.schedules.remove("gone")
    desk.sql("insert into pecker_outcomes (name, succeeded) values ('gone', 7)")
    same = {"task": "proj.report", "schedule": EVERY}
    before = [*counts(desk), desk.schedules.list(), desk.sql(OUTCOMES)]
    with psycopg.connect(desk.dsn) as connection:
        for name in ("gone", "fresh"):
            with pytest.raises(InvalidField, match="no run after now"):
                desk.schedules.change(
                    "report", name=name, end="1999-01-01", **same, connection=connection
                )
        connection.commit()
    assert [*counts(desk), desk.schedules.list(), desk.sql(OUTCOMES)] == before
    desk.sql(
        "insert into pecker_pending (name, due_at, era, epoch, holder, claimed_at)"
        " values ('report', 'epoch', 0, 7, gen_random_uuid(), clock_timestamp())"
    )
    before = [*counts(desk), desk.schedules.list(), desk.sql(OUTCOMES)]
    with psycopg.connect(desk.dsn) as connection:
        for name in ("gone", "fresh"):
            with pytest.raises(SlotUnderway):
                desk.schedules.rename("report", name, connection=connection)
        connection.commit()
    assert [*counts(desk), desk.schedules.list(), desk.sql(OUTCOMES)] == before


def test_history_of_the_new_name_is_forgotten_and_bounded(desk: Desk) -> None:
    """A hundred changes of a name are kept, and none of who had it before."""
    desk.set("monthly", by="before")
    desk.schedules.remove("monthly", by="before")
    desk.set()
    desk.sql(
        "insert into pecker_schedule_changes"
        " (name, version, change, changed_at, changed_by)"
        " select 'report', 1, 'paused', now(), 'ann' from generate_series(1, 99)"
    )
    desk.schedules.rename("report", "monthly", by="bob")
    kept = desk.sql(
        "select name, changed_by, count(*) from pecker_schedule_changes"
        " group by 1, 2 order by 1, 2"
    )
    assert kept == [("monthly", "ann", 99), ("monthly", "bob", 1), ("report", "bob", 1)]


@pytest.mark.parametrize("asks", ["pause", "pause of a page", "run"])
def test_what_is_asked_of_a_name_that_goes_is_refused(desk: Desk, asks: str) -> None:
    """It waits for the rename, and is not confirmed for a name that is gone."""
    desk.set()
    other = Schedules(make_app(desk.dsn))
    overview = Overview(Database(desk.dsn, schema="public", timeout=60.0, role="test"))
    errors: list[Exception] = []

    def ask() -> None:
        try:
            if asks == "pause":
                other.pause("report")
            elif asks == "run":
                overview.request_run("report", "ann")
            else:
                overview.pause("report")
        except PeckerError as error:
            errors.append(error)

    with psycopg.connect(desk.dsn) as connection:
        desk.schedules.rename("report", "monthly", connection=connection)
        thread = threading.Thread(target=ask)
        thread.start()
        waits = (
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
            " and datname = current_database()"
        )
        eventually(
            lambda: desk.sql(waits)[0][0] or not thread.is_alive(), 60.0, "it waits"
        )
        connection.commit()
    thread.join()
    other.close()
    overview.close()
    assert len(errors) == 1
    assert desk.asked() == []
    assert not desk.hot()[2]


def test_a_name_that_is_somebodys_is_refused(desk: Desk) -> None:
    """Another schedule's, this app's code's, a living scheduler's; and nothing goes."""
    row = desk.set()
    desk.set("taken")
    desk.app.conf.beat_schedule = {"code": {"task": "t", "schedule": 1.0}}
    desk.sql("insert into pecker_tasks (name, executed_at) values ('lives', now())")
    desk.sql(
        "insert into pecker_declarations"
        " (name, task, schedule, delivery, run, declared_until)"
        " values ('lives', 't', 's', 'at_most_once', 'dispatch', 'infinity')"
    )
    refused = {
        "taken": "a stored schedule has it, version 1",
        "code": "this app's beat_schedule declares it",
        "lives": "the code of a living scheduler declares it",
        "report": "another name than it has",
        "a\0b": "without NUL",
    }
    for name, words in refused.items():
        with pytest.raises(InvalidField, match=words) as error:
            desk.schedules.rename("report", name)
        assert error.value.field == "name"
    with pytest.raises(VersionConflict, match=r"is at version 1, .* version 2"):
        desk.schedules.rename("report", "monthly", version=2)
    with pytest.raises(UnknownSchedule, match="'nobody'"):
        desk.schedules.rename("nobody", "monthly")
    assert desk.schedules.get("report") == row
    assert not desk.sql("select 1 from pecker_tasks where name = 'monthly'")


def test_a_row_that_code_hides_gets_a_name_of_its_own(desk: Desk) -> None:
    """Code keeps its row and what hangs on it; the schedule begins from now on."""
    desk.set(schedule=60)
    last = desk.won("report", 90 * SECOND)
    desk.sql("update pecker_tasks set version = null")
    desk.sql("update pecker_declarations set stored = false")
    row = desk.schedules.rename("report", "monthly")
    assert row.last_slot is None
    assert not row.declared_by_code
    assert desk.hot()[::3] == (last, None)
    assert desk.hot("monthly")[0] >= row.changed_at
    assert desk.sql("select name, stored from pecker_declarations order by name") == [
        ("monthly", True),
        ("report", False),
    ]


def test_of_two_that_take_a_name_one_has_it(desk: Desk) -> None:
    """The other one is refused: nothing of either is lost."""
    names = [desk.set(f"n{nth}").name for nth in range(4)]
    results: list[object] = []

    def take(name: str) -> None:
        other = Schedules(make_app(desk.dsn))
        try:
            results.append(other.rename(name, "wanted"))
        except InvalidField as error:
            results.append(error)
        finally:
            other.close()

    threads = [threading.Thread(target=take, args=[name]) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused = [one for one in results if isinstance(one, InvalidField)]
    assert (len(results), len(refused)) == (4, 3)
    stored = {one.name for one in desk.schedules.list()}
    assert len(stored) == 4
    assert "wanted" in stored


def test_a_claim_passes_over_both_names_until_it_commits(desk: Desk) -> None:
    """Then the old name's version is one that no replica has read."""
    desk.set()
    with psycopg.connect(desk.dsn) as connection:
        desk.schedules.rename("report", "monthly", connection=connection)
        free = "select name from pecker_tasks for update skip locked"
        assert desk.sql(free) == []
        connection.commit()
    assert desk.hot()[3] == desk.hot("monthly")[3] == 2


def test_two_that_swap_their_names_wait_and_lock_nobody_out(desk: Desk) -> None:
    """Rows are locked in the order of names, whoever wants which."""
    desk.set("a", args=["a"])
    desk.set("b", args=["b"])
    with psycopg.connect(desk.dsn) as one:
        desk.schedules.rename("b", "c", connection=one)
        other = threading.Thread(target=lambda: desk.schedules.rename("a", "b"))
        other.start()
        waits = (
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
            " and datname = current_database()"
        )
        eventually(lambda: desk.sql(waits)[0][0], 60.0, "the second one waits")
        one.commit()
    other.join()
    found = [(row.name, row.args) for row in desk.schedules.list()]
    assert found == [("b", ["a"]), ("c", ["b"])]


@pytest.mark.parametrize("kind", DOORS)
def test_it_is_part_of_the_callers_transaction(kind: str, desk: Desk) -> None:
    """A rollback leaves nothing of it."""
    row = desk.set()
    before = counts(desk)
    with DOORS[kind](desk.dsn) as door:
        desk.schedules.rename("report", "monthly", connection=door.connection)
        door.rollback()
    assert counts(desk) == before
    assert desk.schedules.get("report") == row
    with DOORS[kind](desk.dsn) as door:
        desk.schedules.rename("report", "monthly", connection=door.connection)
        door.commit()
    assert [one.name for one in desk.schedules.list()] == ["monthly"]


@pytest.mark.parametrize("kind", ASYNC_DOORS)
def test_it_is_awaited(kind: str, desk: Desk) -> None:
    """In a transaction, and without one."""
    desk.set()

    async def joined(door: Door) -> None:
        connection: Any = door.connection
        await desk.schedules.arename("report", "b", connection=connection)

    async def run() -> None:
        async with ASYNC_DOORS[kind](desk.dsn) as door:
            await joined(door)
            await door.commit()
        await desk.schedules.arename("b", "c", version=2)
        row = await desk.schedules.achange("c", name="d", task="t", schedule=60)
        assert (row.name, row.task, row.version) == ("d", "t", 5)

    asyncio.run(run())
    assert [one.name for one in desk.schedules.list()] == ["d"]


def test_a_form_with_another_name_is_one_edit(desk: Desk) -> None:
    """What differs beside the name is set with it, or nothing is written."""
    desk.set()
    same = {"task": "proj.report", "schedule": EVERY}
    row = desk.schedules.change("report", name="b", version=1, **same)
    assert (row.name, row.version) == ("b", 2)
    row = desk.schedules.change("b", name="c", paused=True, **{**same, "args": [1]})
    assert (row.name, row.version, row.args, row.paused) == ("c", 4, [1], True)
    assert desk.schedules.change("c", name="c", args=[2], **same).version == 5
    before = counts(desk)
    with pytest.raises(InvalidField, match="no run after now"):
        desk.schedules.change("c", name="d", end="1999-01-01", **same)
    assert counts(desk) == before
