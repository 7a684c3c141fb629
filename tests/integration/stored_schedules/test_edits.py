"""What an edit of a stored schedule writes, and what it refuses to."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from celery.schedules import crontab

from celery_pecker import Pecker
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.schedules import (
    InvalidField,
    Schedules,
    UnknownSchedule,
    VersionConflict,
)
from tests.integration.stored_schedules.conftest import Desk, make_app

HOUR = timedelta(hours=1)


def test_what_is_set_is_read(desk: Desk) -> None:
    """Each field, by get and by list, as set itself answers."""
    row = desk.set(
        "monthly",
        task="proj.invoice",
        schedule=crontab(minute="0", hour="4", day_of_month="1"),
        args=(1, "two"),
        kwargs={"three": [None, 4.5]},
        options={"queue": "slow"},
        timeout=timedelta(minutes=1),
        delivery="at_least_once",
        misfire="catch_up",
        catch_up=3,
        grace=90.0,
        start="2026-01-01 00:00",
        end=datetime(2999, 1, 1, tzinfo=UTC),
        by="ann",
    )
    assert desk.schedules.get("monthly") == row
    assert desk.schedules.list() == [row]
    assert row.task == "proj.invoice"
    assert (row.args, row.kwargs) == ([1, "two"], {"three": [None, 4.5]})
    assert row.options == {"queue": "slow"}
    assert row.schedule == {"crontab": "0 4 1 * *"}
    assert row.words.startswith("at 04:00, on day 1 of the month")
    assert row.policies == {
        "timeout": 60,
        "delivery": "at_least_once",
        "misfire": "catch_up",
        "catch_up": 3,
        "grace": 90,
    }
    assert row.start == datetime(2026, 1, 1, tzinfo=UTC)
    assert row.end == datetime(2999, 1, 1, tzinfo=UTC)
    assert (row.version, row.changed_by, row.run) == (1, "ann", "dispatch")
    assert (row.once, row.paused, row.last_slot, row.problem) == (
        *(False, False, None),
        None,
    )
    assert row.next_due is not None
    assert row.next_due > row.changed_at


def test_overviews_read_it_as_any_entry(desk: Desk) -> None:
    """Its declaration never runs out."""
    desk.set(schedule=30, timeout=10)
    [row] = desk.sql(
        "select task, delivery, period_us, timeout_us, run, stored,"
        " declared_until = 'infinity' from pecker_declarations"
    )
    period, timeout = 30_000_000, 10_000_000
    assert row == (
        *("proj.report", "at_most_once", period, timeout, "dispatch"),
        *(True, True),
    )


def test_each_edit_raises_the_version_of_both_rows(desk: Desk) -> None:
    """Whoever knows the version before claims nothing."""
    assert [desk.set(kwargs={"n": n}).version for n in range(3)] == [1, 2, 3]
    assert desk.hot()[3] == 3


def test_an_edit_for_an_old_version_is_refused(desk: Desk) -> None:
    """Both versions are named, and nothing is written."""
    desk.set(version=0)
    desk.set(version=1, kwargs={"by": "first"})
    for edit in (
        lambda: desk.set(version=1, kwargs={"by": "second"}),
        lambda: desk.set(version=0),
        lambda: desk.schedules.remove("report", version=1),
    ):
        with pytest.raises(VersionConflict, match=r"is at version 2, .* version") as no:
            edit()
        assert no.value.actual == 2
    row = desk.schedules.get("report")
    assert row is not None
    assert (row.version, row.kwargs) == (2, {"by": "first"})
    with pytest.raises(VersionConflict, match="does not exist"):
        desk.set("other", version=3)
    assert not desk.sql("select 1 from pecker_tasks where name = 'other'")


def test_of_writers_at_once_one_wins_each_version(desk: Desk) -> None:
    """Those that name no version queue; of those that name one the others are told."""
    results: list[int | VersionConflict] = []

    def write(version: int | None) -> None:
        try:
            results.append(desk.set("x", version=version).version)
        except VersionConflict as error:
            results.append(error)

    def together(version: int | None) -> None:
        threads = [threading.Thread(target=write, args=[version]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    together(0)
    assert [one for one in results if not isinstance(one, VersionConflict)] == [1]
    assert len(results) == 4
    results.clear()
    together(None)
    assert sorted(map(str, results)) == ["2", "3", "4", "5"]


def test_a_name_of_this_apps_code_is_refused(desk: Desk) -> None:
    """Entries of beat_schedule stay code."""
    desk.app.conf.beat_schedule = {"report": {"task": "t", "schedule": 1.0}}

    @Pecker(desk.app).task(every=1.0, name="tied")
    def tied() -> None:
        """Do nothing."""

    for name in ("report", "tied"):
        with pytest.raises(InvalidField, match=f"name is '{name}'.*beat_schedule"):
            desk.set(name)


def test_a_name_that_living_code_declares_is_refused(desk: Desk) -> None:
    """It may be code that this process does not have; once it is gone, it is free."""
    declare = (
        "insert into pecker_declarations (name, task, schedule, delivery,"
        " declared_until) values ('report', 't', 's', 'd', clock_timestamp() + %s)"
    )
    desk.sql(declare, HOUR)
    with pytest.raises(InvalidField, match="living scheduler") as no:
        desk.set()
    assert no.value.field == "name"
    assert not desk.sql("select 1 from pecker_tasks")
    desk.sql(
        "update pecker_declarations set declared_until = clock_timestamp() - %s", HOUR
    )
    assert desk.set().version == 1


def test_a_row_whose_name_code_took_says_so(desk: Desk) -> None:
    """The definition stays, and nothing of it runs meanwhile."""
    desk.set()
    desk.sql(
        "update pecker_declarations set stored = false,"
        " declared_until = clock_timestamp() + interval '1 hour'"
    )
    desk.sql("update pecker_tasks set version = null")
    row = desk.schedules.get("report")
    assert row is not None
    assert row.declared_by_code
    assert row.problem is not None
    assert "declared by code" in row.problem
    assert desk.schedules.remove("report")
    assert desk.hot()[3] is None
    [(until,)] = desk.sql(
        "select declared_until > clock_timestamp() from pecker_declarations"
    )
    assert until


def test_removed_is_gone_and_leaves_its_row(desk: Desk) -> None:
    """Until it is forgotten: so that replicas see it go."""
    desk.set()
    assert desk.schedules.remove("report", by="bob")
    assert desk.schedules.get("report") is None
    assert not desk.schedules.list()
    assert not desk.schedules.remove("report")
    [(version, removed)] = desk.sql("select version, removed_at from pecker_schedules")
    assert (version, removed is None) == (2, False)
    assert desk.hot()[3] == 2
    [(until,)] = desk.sql(
        "select declared_until <= clock_timestamp() from pecker_declarations"
    )
    assert until
    with pytest.raises(UnknownSchedule, match="no entry is named 'report'"):
        desk.schedules.pause("report")


def test_what_was_asked_of_a_removed_one_goes(desk: Desk) -> None:
    """Whoever removes it does not want it."""
    desk.set(schedule=60)
    desk.sql(
        "insert into pecker_pending"
        " (name, due_at, era, epoch, holder, claimed_at, asked)"
        " values ('report', now(), 0, 0, gen_random_uuid(), 'infinity', true)"
    )
    desk.schedules.remove("report")
    assert not desk.asked()


def test_a_name_that_returns_goes_on_counting(desk: Desk) -> None:
    """Its versions are never used twice, nothing of its past is due, and it runs."""
    desk.set(schedule=60)
    desk.schedules.pause("report")
    desk.won("report", timedelta(minutes=10))
    desk.schedules.remove("report")
    row = desk.set(schedule=60)
    executed, epoch, paused, version = desk.hot()
    assert (row.version, version, epoch, paused) == (3, 3, 7, False)
    assert executed == row.changed_at
    assert not desk.asked()
    assert row.next_due == row.changed_at + timedelta(minutes=1)
    assert [one.change for one in desk.schedules.history("report")] == [
        *("returned", "removed", "paused", "created"),
    ]


def test_pause_keeps_the_last_run_and_the_version(desk: Desk) -> None:
    """It acts at once: nobody needs to read the definition anew."""
    desk.set()
    last = desk.won("report", timedelta(minutes=5))
    assert desk.schedules.pause("report", by="ann")
    assert not desk.schedules.pause("report", by="ann")
    assert desk.hot() == (last, 7, True, 1)
    row = desk.schedules.get("report")
    assert row is not None
    assert (row.paused, row.next_due, row.last_slot) == (True, None, last)
    assert desk.schedules.resume("report", by="bob")
    assert desk.hot() == (last, 7, False, 1)
    changes = desk.schedules.history("report")
    assert [(one.change, one.version, one.changed_by) for one in changes[:2]] == [
        ("resumed", 1, "bob"),
        ("paused", 1, "ann"),
    ]
    assert changes[0].definition is None


def test_an_edit_leaves_a_pause_unless_it_says_otherwise(desk: Desk) -> None:
    """And may pause as it edits."""
    assert desk.set(paused=True).paused
    assert desk.set(kwargs={"n": 1}).paused
    assert desk.hot()[2]
    assert not desk.set(kwargs={"n": 1}, paused=False).paused
    assert not desk.hot()[2]


def test_entries_of_code_are_paused_the_same_way(desk: Desk) -> None:
    """With who did it in the history."""
    desk.sql("insert into pecker_tasks (name, executed_at) values ('code', now())")
    assert desk.schedules.pause("code")
    assert desk.hot("code")[2:] == (True, None)
    [change] = desk.schedules.history("code")
    assert (change.version, change.change) == (0, "paused")
    assert change.changed_by.startswith("db:")


def test_history_says_who_changed_what_to_what(desk: Desk) -> None:
    """Newest first; by default the database's user."""
    desk.set(kwargs={"n": 1}, by="ann")
    desk.set(kwargs={"n": 2}, end="2999-01-01 00:00+00:00")
    desk.schedules.remove("report", by="bob")
    removed, changed, created = desk.schedules.history("report")
    assert (created.change, created.version, created.changed_by) == (
        "created",
        1,
        "ann",
    )
    assert changed.changed_by == f"db:{desk.sql('select session_user')[0][0]}"
    assert (removed.change, removed.version, removed.definition) == ("removed", 3, None)
    assert created.definition is not None
    assert changed.definition == {
        **created.definition,
        "kwargs": {"n": 2},
        "end": "2999-01-01T00:00:00+00:00",
    }
    assert created.changed_at < changed.changed_at < removed.changed_at


def test_history_is_bounded(desk: Desk) -> None:
    """The last hundred of each name: by edits, pauses and removals alike."""
    desk.set("other")
    desk.set()
    desk.sql(
        "insert into pecker_schedule_changes (name, version, change, changed_at,"
        " changed_by) select 'report', 1, 'paused', now(), 'x'"
        " from generate_series(1, 150)"
    )

    def count() -> int:
        [(found,)] = desk.sql(
            "select count(*) from pecker_schedule_changes where name = 'report'"
        )
        return int(found)

    desk.set()
    assert count() == 100
    desk.schedules.pause("report")
    assert count() == 100
    desk.schedules.remove("report")
    assert count() == 100
    assert [one.change for one in desk.schedules.history("report", limit=3)] == [
        *("removed", "paused", "changed"),
    ]
    assert len(desk.schedules.history("other")) == 1


def test_listing_by_name_task_and_page(desk: Desk) -> None:
    """Signs that mean something to SQL mean themselves."""
    for name in ("a_1", "aX1", "b%"):
        desk.set(name, task=f"proj.{name}")

    def names(**chosen: Any) -> list[str]:
        return [row.name for row in desk.schedules.list(**chosen)]

    assert names() == ["aX1", "a_1", "b%"] or names() == ["a_1", "aX1", "b%"]
    assert names(search="A_") == ["a_1"]
    assert names(search="%") == ["b%"]
    assert names(task="proj.aX1") == ["aX1"]
    first, second, third = names()
    assert names(limit=1) == [first]
    assert names(after=first, limit=1) == [second]
    assert names(after=third) == []
    assert names(names=["b%", "nobody's", "a\0"]) == ["b%"]
    assert desk.schedules.remove("b%")
    assert names(names=["b%"]) == names(names=[]) == []


def test_a_row_that_may_not_run_is_shown_with_the_reason(desk: Desk) -> None:
    """It was stored by an app without the list; its row is whole all the same."""
    desk.set("sneaked", task="admin.wipe")
    desk.app.conf.pecker_allowed_tasks = ["proj.*"]
    [row] = Schedules(desk.app).list()
    assert "does not run: task is 'admin.wipe'" in (row.problem or "")
    assert (row.words, row.version) == ("every hour", 1)


def test_a_row_that_cannot_be_read_is_shown_with_the_reason(desk: Desk) -> None:
    """Somebody wrote it by hand, or a later release did; an edit mends it."""
    desk.set("fine")
    for broken in ('{"moon": "full"}', "[1]", '{"cron": "x"}', '{"every": 1e-9}'):
        desk.set("broken")
        desk.sql(
            "update pecker_schedules set schedule = %s::jsonb where name = 'broken'",
            broken,
        )
        rows = {row.name: row for row in desk.schedules.list()}
        assert rows["fine"].problem is None
        problem = rows["broken"].problem
        assert problem is not None
        assert "cannot be read" in problem
        assert rows["broken"].next_due is None
        assert desk.set("broken").problem is None
    desk.sql('update pecker_schedules set policies = \'{"timeout": "x"}\'')
    assert {row.problem is None for row in desk.schedules.list()} == {False}


def test_the_schema_of_another_app_is_refused(desk: Desk) -> None:
    """Its schedulers know none of this app's tasks."""
    desk.sql("insert into pecker_owner (app) values ('theirs')")
    with pytest.raises(Misconfigured, match="belongs to the app 'theirs'"):
        desk.set()
    assert not desk.sql("select 1 from pecker_tasks")
    with pytest.raises(Misconfigured, match="belongs to the app 'theirs'"):
        desk.schedules.rename("theirs", "ours")


def test_pecker_has_them(desk: Desk) -> None:
    """One line for tasks and schedules; without an app there is none to store for."""
    assert isinstance(Pecker(desk.app).schedules, Schedules)
    with pytest.raises(Misconfigured, match="no app"):
        _ = Pecker().schedules


def test_only_allowed_tasks_are_stored(dsn: str) -> None:
    """By name or pattern."""
    app = make_app(dsn, pecker_allowed_tasks=["proj.*", "sweep"])
    schedules = Schedules(app)
    schedules.set("a", task="proj.report", schedule=60)
    schedules.set("b", task="sweep", schedule=60)
    with pytest.raises(InvalidField, match=r"task is 'rm'; allowed is 'proj.\*'") as no:
        schedules.set("c", task="rm", schedule=60)
    assert no.value.field == "task"
    schedules.close()


def test_a_database_without_the_step_names_the_command(empty_dsn: str) -> None:
    """An older schema is no riddle."""
    with psycopg.connect(empty_dsn) as connection:
        assert connection.info.status == 0
    schedules = Schedules(make_app(empty_dsn))
    with pytest.raises(Misconfigured, match="pecker migrate"):
        schedules.set("a", task="t", schedule=60)
    schedules.close()
