"""Runs of a process that was killed are lost; of one that comes back they go on."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from celery_pecker.kernel.clock import SYSTEM, from_us, to_us
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import SchemaOutdated
from celery_pecker.schedules.engine.repository import Repository
from celery_pecker.schedules.history.life import RENEWAL
from celery_pecker.schedules.history.merge import merge
from celery_pecker.schedules.history.recorder import Recorder
from celery_pecker.schedules.history.report import Report, SlotReport
from celery_pecker.schedules.history.writer import HistoryWriter
from celery_pecker.schedules.overview import Overview
from celery_pecker.testing import eventually

DUE = 1_767_225_600_000_000


@pytest.fixture
def database(dsn: str) -> Iterator[Database]:
    """Give the seam, and entries x and y."""
    found = Database(dsn, schema="public", timeout=5.0, role="test")
    found.change("enroll", names=["x", "y"], now=None)
    yield found
    found.close()


@pytest.fixture
def sweeper(database: Database) -> Repository:
    """Give what a scheduler asks of the tables."""
    return Repository(database, uuid.uuid4())


class Worker:
    """A process that reports of runs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.recorder = Recorder(uuid.uuid4(), 600, host="w@here")
        self.now = 1000.0

    def note(self, report: Report, name: str = "x", due_us: int = DUE) -> None:
        """Report of a run, by the clock of now, and write it."""
        at_us = to_us(SYSTEM.now())
        self.recorder.note(name, due_us, 0, 1, at_us, report, "")
        self.write()

    def write(self) -> None:
        """Do what its thread does."""
        if self.recorder.pending():
            self.recorder.flush(self._database, rows=10)
        self.recorder.renew(self._database, self.now)


@pytest.fixture
def worker(database: Database) -> Worker:
    """Give a process that reports of runs."""
    return Worker(database)


def lives(dsn: str) -> list[dict[str, Any]]:
    """Return the table."""
    with psycopg.connect(dsn, row_factory=dict_row) as connection:
        return connection.execute("select * from pecker_lives").fetchall()


def state(dsn: str, name: str = "x") -> Report:
    """Return what the history says of the slot."""
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "select holder, due_us, epoch, at_us, report from pecker_history"
            " where name = %s",
            [name],
        ).fetchall()
    return merge(
        SlotReport(due, 0, epoch, at, Report(report), holder)
        for holder, *columns in rows
        for due, epoch, at, report in zip(*columns, strict=True)
    )[0, DUE].state


def sweep(sweeper: Repository) -> int:
    """Sweep all lives, however lately they were renewed."""
    return sweeper.report_lost_runs(sweeper.read_lives(renewal=0.0))


def test_a_row_stands_while_a_long_run_is_in_hand(
    worker: Worker, dsn: str, sweeper: Repository
) -> None:
    """Whatever its end, and also where it is left without one (a retry)."""
    for end in (Report.SUCCEEDED, Report.FAILED, Report.OVERRUN, Report.LOST, None):
        worker.note(Report.RUNNING)
        [row] = lives(dsn)
        assert (row["names"], row["due_us"], row["host"]) == (["x"], [DUE], "w@here")
        if end is None:
            worker.recorder.leave("x", DUE, 0)
            worker.write()
        else:
            worker.note(end)
        assert not lives(dsn)
    assert not sweep(sweeper)


def test_it_is_renewed_in_its_time_and_written_when_it_changes(
    worker: Worker, dsn: str, sweeper: Repository
) -> None:
    """A renewal is a write: not each time that the thread wakes."""
    worker.note(Report.RUNNING)
    [before] = lives(dsn)
    worker.write()
    assert lives(dsn) == [before]
    assert not sweeper.read_lives(renewal=60.0)
    worker.now += RENEWAL
    worker.write()
    [after] = lives(dsn)
    assert after["seen_at"] > before["seen_at"]
    worker.note(Report.STARTED, "y")
    [both] = lives(dsn)
    assert both["names"] == ["x", "y"]


def test_runs_of_a_silent_process_are_lost_once(
    worker: Worker, dsn: str, database: Database, sweeper: Repository
) -> None:
    """Of two who sweep one counts them."""
    worker.note(Report.RUNNING)
    worker.note(Report.RUNNING, "y")
    seen = sweeper.read_lives(renewal=0.0)
    assert sweeper.report_lost_runs(seen) == 2
    assert not sweeper.report_lost_runs(seen)
    assert not lives(dsn)
    assert state(dsn) is state(dsn, "y") is Report.LOST
    found = Overview(database).outcomes(["x"])["x"]
    assert found.failing
    assert found.counts["lost"] == 1
    assert found.bad is not None
    assert (found.bad.state, found.bad.due_us) == ("lost", DUE)
    assert found.bad.host == "w@here"


def test_a_process_that_renews_meanwhile_has_lost_nothing(
    worker: Worker, dsn: str, sweeper: Repository
) -> None:
    """The sweep names the row as it was read."""
    worker.note(Report.RUNNING)
    seen = sweeper.read_lives(renewal=0.0)
    worker.now += RENEWAL
    worker.write()
    assert not sweeper.report_lost_runs(seen)
    assert lives(dsn)
    assert state(dsn) is Report.RUNNING


def test_a_process_that_comes_back_takes_it_back(
    worker: Worker, dsn: str, database: Database, sweeper: Repository
) -> None:
    """It was frozen for longer than anybody waits; its run still goes on, and ends."""
    worker.note(Report.RUNNING)
    assert sweep(sweeper) == 1
    worker.now += RENEWAL
    worker.write()
    worker.write()
    assert state(dsn) is Report.RUNNING
    assert lives(dsn)
    found = Overview(database).outcomes(["x"])["x"]
    assert not found.failing
    assert found.counts["lost"] == 1  # a counter that falls is read as a new one
    worker.note(Report.SUCCEEDED)
    assert state(dsn) is Report.SUCCEEDED
    assert not lives(dsn)


def test_a_run_that_ends_after_it_was_called_lost_is_what_it_came_to(
    worker: Worker, dsn: str, database: Database, sweeper: Repository
) -> None:
    """Its process had no database meanwhile."""
    worker.note(Report.RUNNING)
    assert sweep(sweeper) == 1
    worker.note(Report.FAILED)
    assert state(dsn) is Report.FAILED
    found = Overview(database).outcomes(["x"])["x"]
    assert found.bad is not None
    assert found.bad.state == "failed"
    assert not lives(dsn)


def test_a_row_ahead_of_the_clock_is_read(database: Database, worker: Worker) -> None:
    """The database's clock stepped back: its age says nothing."""
    worker.note(Report.RUNNING)
    database.now = lambda: from_us(DUE)
    earlier = Repository(database, uuid.uuid4())
    assert len(earlier.read_lives(renewal=RENEWAL)) == 1


def test_an_entry_that_is_gone_gets_no_rows(
    worker: Worker, dsn: str, sweeper: Repository
) -> None:
    """Nothing would ever remove them."""
    worker.note(Report.RUNNING)
    with psycopg.connect(dsn) as connection:
        connection.execute("delete from pecker_tasks where name = 'x'")
    assert sweep(sweeper) == 0
    with psycopg.connect(dsn) as connection:
        lost = "select from pecker_outcomes where lost > 0"
        assert not connection.execute(lost).fetchall()


def test_without_its_table_reports_are_written_all_the_same(
    dsn: str, worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    """And the log says once what is not known: older tables, or a missing right."""
    with psycopg.connect(dsn) as connection:
        connection.execute("drop table pecker_lives")
    database = Database(dsn, schema="public", timeout=5.0, role="history")
    writer = HistoryWriter(worker.recorder, database, clock=SYSTEM, every=0.01)
    writer.start()
    try:
        for report in (Report.RUNNING, Report.SUCCEEDED):
            writer.note("x", DUE, 0, 1, to_us(SYSTEM.now()), report)
            writer.allow(float("inf"))
            eventually(partial(written, dsn, report), 30.0, "it is written")
    finally:
        writer.stop()
        assert writer.join(30.0)
    said = [one for one in caplog.messages if "are not known as lost" in one]
    assert len(said) == 1


def written(dsn: str, report: Report) -> bool:
    """Whether the history has a page, and that says so."""
    with psycopg.connect(dsn) as connection:
        pages = connection.execute("select from pecker_history").fetchall()
    return bool(pages) and state(dsn) is report


def test_a_table_that_refuses_is_left_alone_for_a_while(
    dsn: str, worker: Worker
) -> None:
    """Else each report would be followed by a statement in vain."""
    with psycopg.connect(dsn) as connection:
        connection.execute("alter table pecker_lives rename to away")
    with pytest.raises(SchemaOutdated):
        worker.note(Report.RUNNING)
    worker.recorder.life.put_off(worker.now)
    worker.write()
    with psycopg.connect(dsn) as connection:
        connection.execute("alter table away rename to pecker_lives")
    worker.write()
    assert not lives(dsn)
    worker.now += RENEWAL
    worker.write()
    assert lives(dsn)
