"""What people see is what the tables say, on a real PostgreSQL."""

from __future__ import annotations

import uuid
from datetime import timedelta

import psycopg
import pytest

from celery_pecker.kernel.clock import from_us
from celery_pecker.kernel.errors import UnknownSchedule
from celery_pecker.schedules.engine.repository import Repository
from celery_pecker.schedules.history.recorder import Recorder
from celery_pecker.schedules.history.report import Report
from celery_pecker.schedules.overview import ORDERS
from celery_pecker.schedules.overview.model import NoRoom, NotDeclared
from celery_pecker.schedules.overview.reader import STATES
from celery_pecker.schedules.overview.slot_verdicts import alive
from tests.integration.overview.conftest import SECOND, START, START_US, Stage

ODD = "<b>ünï/code</b> %s 'x'"


def test_a_row_says_what_was_declared_and_won(stage: Stage) -> None:
    """Every field of a list's row, of an entry that had two slots."""
    stage.declare(ODD)
    stage.after(2.25)
    stage.win(ODD)
    page = stage.overview.page()
    assert (page.total, page.now_us) == (1, START_US + 2_250_000)
    [row] = page.rows
    assert (row.name, row.task, row.schedule) == (ODD, "proj.<b>", "every second")
    assert (row.run, row.delivery, row.period_us) == (
        "dispatch",
        "at_most_once",
        SECOND,
    )
    assert (row.timeout_us, row.last_us) == (SECOND // 2, START_US + 2 * SECOND)
    assert (row.next_us, row.overdue_us) == (START_US + 3 * SECOND, 0)
    assert (row.holder, row.host) == (stage.holder, "here")
    assert (row.epoch, row.era, row.missed) == (START_US + 2_250_000, 0, 1)
    assert (row.paused, row.declared, row.state) == (False, True, "ok")
    assert (row.late_us, row.spark) == (None, [])
    detail = stage.overview.entry(ODD)
    assert detail is not None
    assert detail.row == row
    assert detail.declared_until_us == START_US + 180 * SECOND
    assert (detail.slots, detail.fence, detail.pending) == ([], None, [])


def test_each_state_is_told_and_sorted_by(stage: Stage) -> None:
    """Trouble first; what is computed for sorting says the same as what is shown."""
    stage.declare("alive", "fresh", "late", "paused", "silent")
    stage.declare("cron", period_us=None)
    stage.after(1)
    stage.win("alive", "late", "paused")
    stage.overview.pause("paused")
    stage.after(4)
    stage.win("alive")
    stage.after(6.5)
    with psycopg.connect(stage.database.dsn, autocommit=True) as connection:
        connection.execute(
            "update pecker_declarations set declared_until = %s where name = 'silent'",
            [START],
        )
        connection.execute(
            "update pecker_tasks set executed_at = %s where name = 'fresh'",
            [START + timedelta(seconds=6)],
        )
    expected = {
        "late": "overdue",
        "silent": "undeclared",
        "paused": "paused",
        "cron": "new",
        "fresh": "new",
        "alive": "ok",
    }
    stage.after(6.9)
    assert stage.states() == {**expected, "late": "ok"}, "within the patience"
    stage.after(7.1)
    assert stage.states() == expected
    assert [row.name for row in stage.overview.page(order="state").rows] == [*expected]
    for state in STATES:
        rows = stage.overview.page(state=state).rows
        named = {name for name, one in expected.items() if one == state}
        assert {row.name for row in rows} == named
    assert stage.overview.page(state="new", task="nobody's").total == 0
    for name, state in expected.items():
        detail = stage.overview.entry(name)
        assert detail is not None
        assert detail.row.state == state
    totals = stage.overview.totals()
    assert (totals.entries, totals.declared, totals.grid) == (6, 5, 4)
    assert (totals.overdue, totals.paused, totals.undeclared) == (2, 1, 1)
    assert (totals.new, totals.replicas) == (3, 1)
    pace = stage.overview.totals()
    assert (pace.overdue, pace.grid) == (2, 4), "a paused one is won as ever"
    assert pace.worst in {"late", "paused"}
    assert pace.worst_us == 5_100_000


def test_pages_are_searched_and_sorted(stage: Stage) -> None:
    """By each order, forth and back, a part at a time, in no order of the database."""
    names = ["b", "A", "a/1", "a%", "ä", "zz"]
    stage.declare(*names)
    for order in ORDERS:
        forth = [row.name for row in stage.overview.page(order=order).rows]
        back = stage.overview.page(order=order, descending=True)
        assert sorted(forth) == sorted(names)
        assert sorted(row.name for row in back.rows) == sorted(names)
        parts = [
            row.name
            for offset in range(0, 6, 2)
            for row in stage.overview.page(order=order, limit=2, offset=offset).rows
        ]
        assert parts == forth
    assert [row.name for row in stage.overview.page().rows] == sorted(names)
    back = stage.overview.page(descending=True)
    assert [row.name for row in back.rows] == sorted(names, reverse=True)
    found = stage.overview.page(search="A", limit=2)
    assert (found.total, [row.name for row in found.rows]) == (4 - 1, ["A", "a%"])
    assert stage.overview.page(search="proj.zz").total == 1
    assert stage.overview.page(search="%").total == 1
    beyond = stage.overview.page(offset=10)
    assert (beyond.total, beyond.rows) == (6, [])
    with pytest.raises(ValueError, match="order is 'size'; allowed are name, task"):
        stage.overview.page(order="size")


def test_the_reports_of_several_processes_are_one_slot_each(stage: Stage) -> None:
    """Lateness, sparkline and strip, of the scheduler's reports and of a worker's."""
    stage.declare("tick", "tock")
    here, there = Recorder(stage.holder, 600), Recorder(uuid.uuid4(), 600)
    for nth in range(1, 101):
        due_us = START_US + nth * SECOND
        here.note("tick", due_us, 0, nth, due_us + nth * 10, Report.PUBLISHED)
    for nth in range(90, 101, 2):
        due_us = START_US + nth * SECOND
        there.note("tick", due_us, 0, nth, due_us + SECOND, Report.REFUSED_LATE)
    due_us = START_US + SECOND
    here.note("tock", due_us, 0, 1, due_us + 99_999, Report.PUBLISHED)
    here.flush(stage.database, rows=50)
    there.flush(stage.database, rows=50)
    [tick, tock] = stage.overview.page().rows
    assert tick.spark == [nth * 10 for nth in range(61, 101)]
    assert (tick.late_us, tock.late_us, tock.spark) == (1_000, 99_999, [99_999])
    late = stage.overview.page(order="late", descending=True)
    assert late.rows[0].name == "tick", "as its last report says"
    detail = stage.overview.entry("tick")
    assert detail is not None
    assert detail.row == tick
    assert [slot.epoch for slot in detail.slots] == [*range(100, 0, -1)]
    told = {slot.epoch: (slot.state, slot.late_us, slot.host) for slot in detail.slots}
    assert told[90] == ("refused_late", 900, None)
    assert told[91] == ("published", 910, "here")
    short = stage.overview.entry("tick", limit=5)
    assert short is not None
    assert [slot.epoch for slot in short.slots] == [100, 99, 98, 97, 96]


def test_reports_of_refusals_do_not_hide_the_lateness(stage: Stage) -> None:
    """A worker that refuses slot after slot writes a page for each."""
    stage.declare("tick")
    here = Recorder(stage.holder, 600)
    for nth in range(1, 51):
        due_us = START_US + nth * SECOND
        here.note("tick", due_us, 0, nth, due_us + nth, Report.PUBLISHED)
        worker = Recorder(uuid.uuid4(), 600)
        worker.note("tick", due_us, 0, nth, due_us + 5, Report.REFUSED_LATE)
        worker.flush(stage.database, rows=1)
    here.flush(stage.database, rows=50)
    [row] = stage.overview.page().rows
    assert row.spark == [*range(11, 51)]


def test_replicas_live_as_long_as_they_are_seen(stage: Stage) -> None:
    """Host, process, entries, and how many of them it holds."""
    stage.declare("tick", "tock")
    stage.after(1)
    stage.win("tick")
    [one] = stage.overview.replicas()
    assert (one.holder, one.host, one.pid, one.kind) == (
        stage.holder,
        "here",
        7,
        "beat",
    )
    assert (one.entries, one.won, one.living) == (2, 1, True)
    assert (one.started_us, one.seen_us) == (START_US, START_US)
    stage.after(30)
    [one] = stage.overview.replicas()
    assert not one.living
    assert stage.overview.totals().replicas == 0


def test_a_worker_is_one_scheduler(stage: Stage) -> None:
    """Of its two parts one sends and one runs local entries; some have only that."""

    def announce(kind: str, pid: int) -> None:
        part = Repository(stage.database, uuid.uuid4(), kind=kind)
        part.announce(host="here", pid=pid, version="1", entries=0)

    for kind in ("worker", "local"):
        announce(kind, 8)
    announce("local", 9)
    announce("beat", 10)
    assert stage.overview.totals().replicas == 3
    assert len(alive(stage.overview.replicas())) == 3


def test_pause_and_resume_are_the_row(stage: Stage) -> None:
    """Again changes nothing; a name that is not there is said."""
    stage.declare("tick")
    for _ in range(2):
        stage.overview.pause("tick")
        assert stage.states() == {"tick": "paused"}
    for _ in range(2):
        stage.overview.resume("tick")
        assert stage.states() == {"tick": "new"}
    for unknown in ("nobody", "nul\0", "\ud800"):
        with pytest.raises(UnknownSchedule, match="no entry is named"):
            stage.overview.pause(unknown)
        with pytest.raises(UnknownSchedule, match="no entry is named"):
            stage.overview.request_run(unknown, "me")
        assert stage.overview.entry(unknown) is None


def test_a_run_asked_for_twice_is_one_that_waits(stage: Stage) -> None:
    """A second click asks for the same; nobody is asked who is not there."""
    stage.declare("tick")
    stage.after(0.5)
    due_us = stage.overview.request_run("tick", "ann")
    assert due_us == START_US + 500_000
    stage.after(0.75)
    assert stage.overview.request_run("tick", "bob") == due_us
    detail = stage.overview.entry("tick")
    assert detail is not None
    [one] = detail.pending
    assert (one.due_us, one.asked, one.asked_by) == (due_us, True, "ann")
    assert (one.claimed_us, one.epoch, one.attempt) == (None, 0, 1)
    assert stage.overview.totals().asked == 1
    stage.after(1_000)
    with pytest.raises(NotDeclared, match="no living replica's code declares"):
        stage.overview.request_run("tick", "ann")


def test_a_run_for_which_there_is_no_room_is_refused_at_once(stage: Stage) -> None:
    """A timeout as long as the period: it would wait for five minutes in vain."""
    stage.declare("full", period_us=SECOND // 2)
    stage.after(2)
    stage.win("full")
    with pytest.raises(NoRoom, match="its timeout is as long as its period"):
        stage.overview.request_run("full", "ann")
    assert stage.overview.totals().asked == 0


def test_the_run_that_last_started_is_shown(stage: Stage) -> None:
    """From the table of fences."""
    stage.declare("tick")
    with psycopg.connect(stage.database.dsn, autocommit=True) as connection:
        connection.execute(
            "insert into pecker_fences values ('tick', 0, %s, 1, 77, %s)",
            [START, START + timedelta(seconds=1)],
        )
    detail = stage.overview.entry("tick")
    assert detail is not None
    assert detail.fence is not None
    assert (detail.fence.epoch, detail.fence.attempt) == (77, 1)
    assert from_us(detail.fence.started_us) == START + timedelta(seconds=1)


def test_an_empty_schema_is_an_empty_page(stage: Stage) -> None:
    """Nothing is there, and that is said without an error."""
    page = stage.overview.page()
    assert (page.total, page.rows, page.now_us) == (0, [], START_US)
    assert stage.overview.totals().worst is None
