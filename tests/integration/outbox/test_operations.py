"""Many rows changed at once by hand, on a table that is in use."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.outbox import operations
from celery_pecker.outbox.operations import Which
from celery_pecker.outbox.runs.holds import Holds
from celery_pecker.outbox.runs.load import Load
from celery_pecker.outbox.runs.options import Options
from celery_pecker.outbox.runs.rows import Rows
from tests.integration.outbox.stored import Table

OPTIONS = Options(timeout=None, attempts=3)
LATER = datetime(2090, 1, 1, tzinfo=UTC)


@pytest.fixture
def database(dsn: str) -> Iterator[Database]:
    """Give the seam of the operator."""
    made = Database(dsn, schema="public", timeout=30.0)
    yield made
    made.close()


def test_due_times_of_many_rows_are_moved_at_once(
    dsn: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In portions, each once; others stay."""
    monkeypatch.setattr(operations, "AT_ONCE", 7)
    table = Table(dsn)
    moved = [table.add("a") for _ in range(20)]
    stays = table.add("b")
    rows = Rows(database, Holds(60.0, 60.0))
    assert operations.reschedule(database, Which(tasks=["a"]), at=LATER) == 20
    assert [one.id for one in rows.claim_pushes()] == [stays]
    assert table.row(moved[0])["due_at"] == LATER
    which = Which(tasks=["a"])
    assert operations.reschedule(database, which, delay=0.0, attempt=2) == 20
    assert {one.id for one in rows.claim_pushes()} == {*moved}
    assert table.row(moved[3])["attempt"] == 2


def test_messages_of_before_the_change_start_nothing(
    dsn: str, database: Database
) -> None:
    """What was moved to next century does not run today."""
    number = Table(dsn).add("a")
    rows = Rows(database, Holds(60.0, 60.0))
    [pushed] = rows.claim_pushes()
    operations.reschedule(database, Which(ids=[number]), at=LATER)
    told = Table(dsn).ref(pushed.id, pushed.epoch)
    assert rows.start(told, OPTIONS) == (None, "repeated")


def test_a_run_keeps_its_hold_unless_it_is_said_to_have_ended(
    dsn: str, database: Database
) -> None:
    """It is not run twice at a time because somebody moved the queue."""
    table = Table(dsn)
    number = table.add("a", mode=2)
    rows = Rows(database, Holds(60.0, 60.0))
    [begun] = rows.take([("a", OPTIONS)], 1).begun
    which = Which(all_rows=True)
    operations.reschedule(database, which, delay=0.0)
    assert rows.take([("a", OPTIONS)], 1).begun == []
    operations.reschedule(database, which, delay=0.0, ended=True)
    [again] = rows.take([("a", OPTIONS)], 1).begun
    assert (again.id, again.attempt) == (number, 2)
    assert not rows.end(begun, emergency=False)
    assert rows.end(again, emergency=False)


def test_what_is_parked_is_retried_with_all_its_attempts(
    dsn: str, database: Database
) -> None:
    """Others are not touched by that; a parked row runs again, or is dropped."""
    table = Table(dsn)
    number = table.add("a", mode=2)
    waits = table.add("b", mode=2)
    rows = Rows(database, Holds(60.0, 60.0))
    assert operations.park(database, Which(tasks=["a"]), "seen on Monday") == 1
    assert table.row(number)["last_error"] == "seen on Monday"
    assert rows.take([("a", OPTIONS)], 1).begun == []
    before = table.row(waits)
    assert operations.retry(database, Which(all_rows=True)) == 1
    assert table.row(waits) == before
    [begun] = rows.take([("a", OPTIONS)], 1).begun
    assert begun.attempt == 1
    rows.fail(begun.id, begun.epoch, "again", park=True)
    assert operations.drop(database, Which(parked=True)) == 1
    assert table.rows == 1


def test_rows_are_chosen_by_their_attempts(dsn: str, database: Database) -> None:
    """Most first is what people look at."""
    table = Table(dsn)
    tried, _ = table.add("a", mode=2), table.add("b", mode=2)
    rows = Rows(database, Holds(60.0, 60.0))
    rows.take([("a", OPTIONS)], 1)
    assert operations.park(database, Which(attempts_from=1), "x") == 1
    assert table.row(tried)["parked_at"] is not None


def test_bad_requests_change_nothing(dsn: str, database: Database) -> None:
    """What is named, and what is allowed."""
    Table(dsn).add("a")
    with pytest.raises(Misconfigured, match="no rows are named"):
        Which()
    which = Which(all_rows=True)
    with pytest.raises(Misconfigured, match="nothing to change"):
        operations.reschedule(database, which)
    with pytest.raises(Misconfigured, match="exclude each other"):
        operations.reschedule(database, which, at=LATER, delay=1.0)
    with pytest.raises(Misconfigured, match="time zone"):
        operations.reschedule(database, which, at=LATER.replace(tzinfo=None))
    with pytest.raises(Misconfigured, match="attempt is -1; allowed"):
        operations.reschedule(database, which, attempt=-1)
    assert Table(dsn).execute("select due_at, attempt from pecker_outbox") == [
        (None, None)
    ]


def test_the_load_is_read_as_it_was_set(database: Database) -> None:
    """What is not set is as by default; what cannot be is not stored."""
    assert Load.now(database) == Load()
    wanted = operations.set_load(database, threads=3, pause_done=0.5, only=["a"])
    assert Load.now(database) == wanted == Load(threads=3, pause_done=0.5, only=("a",))
    with pytest.raises(Misconfigured, match="threads is 9999"):
        operations.set_load(database, threads=9_999)
    assert Load.now(database) == wanted
    assert operations.set_load(database) == Load() == Load.now(database)
