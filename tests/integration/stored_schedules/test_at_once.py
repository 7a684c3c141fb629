"""Edits that take no lock first, and many of them in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from celery_pecker.kernel.settings import Settings
from celery_pecker.schedules import InvalidField, ScheduleRow, VersionConflict
from celery_pecker.schedules.stored.edit_plan import Edit
from celery_pecker.schedules.stored.edits import Edits
from tests.integration.stored_schedules.conftest import EVERY, Desk

DAY = timedelta(days=1)


def at_once(desk: Desk, between: Callable[[], object]) -> ScheduleRow | None:
    """Change the schedule of `report` while somebody does something between."""
    settings = Settings.read(desk.app.conf, main="desk")
    schedules = desk.schedules
    edits = Edits("public", app_name=settings.app, timings=schedules.timings)
    wanted = schedules.check("report", task="proj.report", schedule=60.0)
    flow = edits.set_at_once(wanted, Edit())
    with psycopg.connect(desk.dsn, autocommit=True) as connection:
        connection.execute("set lock_timeout = '20s'")
        statement = next(flow)
        try:
            for nth in range(3):
                rows = connection.execute(
                    statement.text.encode(), statement.params
                ).fetchall()
                if nth == 0:
                    between()
                statement = flow.send(rows)
        except StopIteration as end:
            row: ScheduleRow | None = end.value
            return row
    message = "more than two statements"
    raise AssertionError(message)


def test_where_nobody_is_at_it_two_statements_do(desk: Desk) -> None:
    """The one that reads, and the one that writes."""
    desk.set()
    row = at_once(desk, lambda: None)
    assert row == desk.schedules.get("report")
    assert row is not None
    assert row.version == 2


def rival(desk: Desk, what: str) -> Callable[[], object]:
    """Return what somebody does to `report`."""
    does: dict[str, Callable[[], object]] = {
        "claims": lambda: desk.won("report", DAY),
        "edits": lambda: desk.set(kwargs={"n": 1}),
        "pauses": lambda: desk.schedules.pause("report"),
        "removes": lambda: desk.schedules.remove("report"),
        "declares": lambda: desk.sql(
            "update pecker_tasks set version = null where name = 'report'"
        ),
    }
    return does[what]


@pytest.mark.parametrize("what", ["claims", "edits", "pauses", "removes", "declares"])
def test_whoever_came_between_is_seen(desk: Desk, what: str) -> None:
    """Nothing is written by what was read before; `set` goes behind them."""
    desk.set()
    seen: list[Any] = []

    def between() -> None:
        rival(desk, what)()
        seen.append((desk.schedules.get("report"), desk.hot()))

    assert at_once(desk, between) is None
    [(row, hot)] = seen
    now = desk.schedules.get("report")
    assert hot == desk.hot()
    if row is not None and now is not None:
        assert (row.version, row.schedule) == (now.version, now.schedule)


def test_who_is_still_at_it_is_not_waited_for(desk: Desk) -> None:
    """Their commit would come after the instant that was read."""
    desk.set()
    with psycopg.connect(desk.dsn) as connection:

        def between() -> None:
            desk.set(kwargs={"n": 1}, connection=connection)

        assert at_once(desk, between) is None
        connection.rollback()


def many(count: int = 3, **fields: Any) -> list[dict[str, Any]]:
    """Return the arguments of so many schedules, the last name first."""
    plain = {"task": "proj.report", "schedule": EVERY, **fields}
    return [{"name": f"entry {n}", **plain} for n in reversed(range(count))]


def test_many_are_one_transaction_and_come_back_in_order(desk: Desk) -> None:
    """New ones and those that are there."""
    desk.set("entry 1", by="bob")
    rows = desk.schedules.set_many(many(args=[7]), by="ann")
    assert [(row.name, row.version, row.args) for row in rows] == [
        ("entry 2", 1, [7]),
        ("entry 1", 2, [7]),
        ("entry 0", 1, [7]),
    ]
    assert {row.changed_by for row in rows} == {"ann"}
    assert rows[1] == desk.schedules.get("entry 1")
    assert len(desk.sql("select distinct edit from pecker_schedules")) == 1
    changes = desk.schedules.history("entry 1")
    assert [(one.version, one.change) for one in changes] == [
        (2, "changed"),
        (1, "created"),
    ]


def test_of_many_all_are_written_or_none(desk: Desk) -> None:
    """Whether the validator refuses one of them or the tables do."""
    desk.set("entry 0")
    wrong = many()
    wrong[-1]["version"] = 7
    with pytest.raises(VersionConflict, match="entry 0"):
        desk.schedules.set_many(wrong)
    wrong = many()
    wrong[1]["schedule"] = {"cron": "0 0 31 2 *"}
    with pytest.raises(InvalidField, match="'entry 1': ") as refused:
        desk.schedules.set_many(wrong)
    assert refused.value.field == "schedule"
    with pytest.raises(InvalidField, match="each name once"):
        desk.schedules.set_many([*many(1), *many(1)])
    with pytest.raises(InvalidField, match="1,000 at once"):
        desk.schedules.set_many(many(1_001))
    assert [row.name for row in desk.schedules.list()] == ["entry 0"]
    assert desk.sql("select count(*) from pecker_tasks") == [(1,)]
    assert desk.schedules.set_many([]) == []


def test_many_join_the_callers_transaction(desk: Desk) -> None:
    """And are awaited as others are."""
    with psycopg.connect(desk.dsn) as connection:
        desk.schedules.set_many(many(), connection=connection)
        connection.rollback()
    assert desk.schedules.list() == []
    rows = asyncio.run(desk.schedules.aset_many(many()))
    assert len(rows) == 3
