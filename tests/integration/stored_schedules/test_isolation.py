"""Edits in transactions of callers who see one snapshot: they join, or fail whole."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from psycopg import IsolationLevel
from psycopg.errors import SerializationFailure

from celery_pecker.schedules import VersionConflict
from tests.integration.stored_schedules.conftest import Desk
from tests.integration.stored_schedules.test_transactions import counts

LEVELS = pytest.mark.parametrize(
    "level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE]
)
EDITS: dict[str, Callable[[Desk, psycopg.Connection], object]] = {
    "set": lambda desk, one: desk.set(kwargs={"n": 2}, connection=one),
    "set with a version": lambda desk, one: desk.set(
        kwargs={"n": 2}, version=1, connection=one
    ),
    "rename": lambda desk, one: desk.schedules.rename("report", "x", connection=one),
    "remove": lambda desk, one: desk.schedules.remove("report", connection=one),
    "pause": lambda desk, one: desk.schedules.pause("report", connection=one),
}


def begin(desk: Desk, level: IsolationLevel) -> psycopg.Connection:
    """Return a connection whose snapshot is from now."""
    connection = psycopg.connect(desk.dsn)
    connection.isolation_level = level
    connection.execute("select 1 from pecker_schedules")
    return connection


@LEVELS
def test_every_edit_joins_it(desk: Desk, level: IsolationLevel) -> None:
    """Each sees what those before it in the transaction wrote."""
    desk.set("there")
    with begin(desk, level) as one:
        schedules = desk.schedules
        assert desk.set("new", connection=one).version == 1
        assert desk.set("new", kwargs={"n": 1}, connection=one).version == 2
        desk.set("there", kwargs={"n": 1}, version=1, connection=one)
        schedules.rename("there", "renamed", connection=one)
        schedules.pause("renamed", connection=one)
        schedules.remove("new", version=2, connection=one)
        schedules.set_many(
            [{"name": name, "task": "t", "schedule": 60} for name in "ab"],
            connection=one,
        )
        found = [row.name for row in schedules.list(connection=one)]
        assert found == ["a", "b", "renamed"]
        one.commit()
    assert [row.name for row in desk.schedules.list()] == ["a", "b", "renamed"]
    assert desk.hot("renamed")[2]


@LEVELS
@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("rival", ["edit", "claim"])
def test_what_came_in_between_fails_it_whole_and_another_try_does_it(
    desk: Desk, level: IsolationLevel, edit: str, rival: str
) -> None:
    """As PostgreSQL says it to whoever updates a row under such a snapshot.

    An edit that is for a version is refused then, by the version that there is.
    """
    desk.set(kwargs={"n": 0})
    with begin(desk, level) as one:
        if rival == "edit":
            desk.set(kwargs={"n": 1})
        else:
            desk.sql("update pecker_tasks set executed_at = now(), epoch = 9")
        before = counts(desk)
        with pytest.raises(SerializationFailure):
            EDITS[edit](desk, one)
        one.rollback()
    assert counts(desk) == before
    with begin(desk, level) as one:
        if edit == "set with a version" and rival == "edit":
            with pytest.raises(VersionConflict, match="is at version 2"):
                EDITS[edit](desk, one)
        else:
            assert EDITS[edit](desk, one)
            one.commit()


@LEVELS
def test_of_two_who_make_a_name_at_once_one_makes_it(
    desk: Desk, level: IsolationLevel
) -> None:
    """The other one's snapshot does not show it: it fails, and nothing is doubled."""
    with begin(desk, level) as one:
        desk.set("new", kwargs={"n": 1})
        with pytest.raises(SerializationFailure):
            desk.set("new", kwargs={"n": 2}, connection=one)
        one.rollback()
    row = desk.schedules.get("new")
    assert row is not None
    assert (row.version, row.kwargs) == (1, {"n": 1})
