"""The history is bounded in memory and in its table, and nothing depends on it."""

from __future__ import annotations

import gc
import uuid
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.rows import dict_row

from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import DatabaseUnavailable
from celery_pecker.schedules.history import recorder
from celery_pecker.schedules.history.merge import SlotRecord, merge
from celery_pecker.schedules.history.recorder import SLOTS, Recorder
from celery_pecker.schedules.history.report import Report, SlotReport
from celery_pecker.schedules.history.writer import HistoryWriter
from celery_pecker.testing import eventually
from celery_pecker.testing.manual import ManualClock

SECOND = 1_000_000
START = 1_767_225_600 * SECOND
PUBLISHED = Report.PUBLISHED


@pytest.fixture
def database(dsn: str) -> Iterator[Database]:
    """Give the seam."""
    found = Database(dsn, schema="public", timeout=5.0, role="test")
    yield found
    found.close()


def note(
    to: Recorder, nth: int, report: Report = PUBLISHED, *, name: str = "x", era: int = 0
) -> None:
    """Report the n-th slot of an entry."""
    due_us = START + nth * SECOND
    to.note(name, due_us, era, nth + 1, due_us + 500, report)


def read(dsn: str, name: str = "x") -> dict[tuple[int, int], SlotRecord]:
    """Return the fates that the table tells of."""
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "select era, holder, due_us, epoch, at_us, report from pecker_history"
            " where name = %s",
            [name],
        ).fetchall()
    return merge(
        SlotReport(due, era, epoch, at, Report(report), holder)
        for era, holder, *columns in rows
        for due, epoch, at, report in zip(*columns, strict=True)
    )


def pages(dsn: str) -> int:
    """Count the rows."""
    with psycopg.connect(dsn) as connection:
        [(count,)] = connection.execute("select count(*) from pecker_history")
    return count  # type: ignore[no-any-return]


def test_a_page_is_written_again_while_it_fills(database: Database, dsn: str) -> None:
    """So the table has one row a minute for a per-second entry, not sixty."""
    ours = Recorder(uuid.uuid4(), 600)
    for nth in range(SLOTS):
        note(ours, nth)
        assert ours.flush(database, rows=10) == 1
    assert (pages(dsn), len(read(dsn))) == (1, SLOTS)
    note(ours, SLOTS)
    ours.flush(database, rows=10)
    assert (pages(dsn), len(read(dsn))) == (2, SLOTS + 1)
    assert not ours.pending()


def test_several_reports_of_a_slot_share_a_page(database: Database, dsn: str) -> None:
    """A local run is taken, started and done with."""
    ours = Recorder(uuid.uuid4(), 600)
    for nth in range(3):
        for report in (PUBLISHED, Report.STARTED, Report.SUCCEEDED):
            note(ours, nth, report)
    ours.flush(database, rows=10)
    assert pages(dsn) == 1
    assert {fate.state for fate in read(dsn).values()} == {Report.SUCCEEDED}
    assert {fate.late_us for fate in read(dsn).values()} == {500}


def test_a_late_word_takes_no_old_page_s_place(database: Database, dsn: str) -> None:
    """A page is named by its first slot, and a run may end after its page is full."""
    ours = Recorder(uuid.uuid4(), 600)
    for nth in range(SLOTS):
        note(ours, nth)
    note(ours, 0, Report.SUCCEEDED)
    ours.flush(database, rows=10)
    told = read(dsn)
    assert len(told) == SLOTS
    assert told[0, START].state is Report.SUCCEEDED


def test_a_new_era_begins_a_page_and_old_words_are_counted(
    database: Database, dsn: str
) -> None:
    """The same instants come again after the clock stepped back: other slots."""
    ours = Recorder(uuid.uuid4(), 600)
    note(ours, 5)
    note(ours, 5, era=1)
    note(ours, 6, era=0)
    ours.flush(database, rows=10)
    assert sorted(read(dsn)) == [(0, START + 5 * SECOND), (1, START + 5 * SECOND)]
    assert ours.dropped == 1


def test_each_entry_keeps_its_last_slots_whoever_wrote_them(
    database: Database, dsn: str
) -> None:
    """Process lives come and go; what they wrote is counted together."""
    for life in range(6):
        ours = Recorder(uuid.uuid4(), 120)
        for nth in range(life * SLOTS, (life + 1) * SLOTS):
            note(ours, nth)
        note(ours, 0, name="rare")
        while ours.pending():
            ours.flush(database, rows=10)
    assert len(read(dsn)) == 120
    assert min(read(dsn)) == (0, START + 4 * SLOTS * SECOND)
    assert len(read(dsn, "rare")) == 1


def test_a_page_that_somebody_writes_is_not_waited_for(
    database: Database, dsn: str
) -> None:
    """Removing old pages must not queue behind a rival (I4)."""
    theirs, ours = Recorder(uuid.uuid4(), 10), Recorder(uuid.uuid4(), 10)
    note(theirs, 0)
    theirs.flush(database, rows=1)
    for nth in range(10, 20):
        note(ours, nth)
    with psycopg.connect(dsn) as rival:
        rival.execute("select from pecker_history for update")
        ours.flush(database, rows=1)
    assert pages(dsn) == 2


def test_entries_take_turns(database: Database, dsn: str) -> None:
    """One that changes all the time does not keep the others from the table."""
    ours = Recorder(uuid.uuid4(), 600)
    for name in "abcd":
        note(ours, 0, name=name)
    for nth in range(4):
        note(ours, nth, name="a")
        assert ours.flush(database, rows=1) == 1
    assert all(read(dsn, name) for name in "abcd")


def test_what_cannot_be_written_is_dropped_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the database away for long, memory stays bounded."""
    monkeypatch.setattr(recorder, "WAITING", 2 * SLOTS)
    monkeypatch.setattr(recorder, "FILLED", 1)
    nowhere = Database("host=127.0.0.1 port=9", schema="public", timeout=1.0)
    ours = Recorder(uuid.uuid4(), 600)
    for nth in range(2 * SLOTS + 1):
        note(ours, nth)
    assert ours.dropped == 1
    for start in (0, 2 * SLOTS):
        for nth in range(start, start + 2 * SLOTS):
            note(ours, nth)
        with pytest.raises(DatabaseUnavailable):
            ours.flush(nowhere, rows=10)
    assert ours.dropped > SLOTS
    assert ours.pending()


def test_a_page_whose_answer_got_lost_is_written_again(
    database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same page again changes nothing."""
    ours = Recorder(uuid.uuid4(), 600)
    note(ours, 0)
    change = database.change

    def silent(label: str, **params: object) -> int:
        change(label, **params)
        raise DatabaseUnavailable

    monkeypatch.setattr(database, "change", silent)
    with pytest.raises(DatabaseUnavailable):
        ours.flush(database, rows=10)
    monkeypatch.undo()
    note(ours, 1)
    ours.flush(database, rows=10)
    assert (pages(dsn), len(read(dsn))) == (1, 2)


def test_none_is_kept_where_none_is_wanted() -> None:
    """pecker_history = 0 costs nothing."""
    ours = Recorder(uuid.uuid4(), 0)
    note(ours, 0)
    assert not ours.pending()


def test_the_scribe_writes_while_nothing_is_due(database: Database, dsn: str) -> None:
    """Not before: the scheduler's thread shares the interpreter. And not never."""
    clock, ours = ManualClock(), Recorder(uuid.uuid4(), 600)
    writer = HistoryWriter(ours, database, clock=clock)
    step, us = writer._step, SECOND
    clock.advance_us(us)
    note(ours, 0)
    writer.allow(clock.monotonic() + 0.01)
    assert step() == pytest.approx(4.0)
    assert not read(dsn)
    writer.allow(clock.monotonic() + 1)
    step()
    assert len(read(dsn)) == 1
    note(ours, 1)
    assert 0 < step() < 1, "it rests between two bites"
    clock.advance_us(us)
    step()
    assert len(read(dsn)) == 1
    clock.advance_us(5 * us)
    step()
    assert len(read(dsn)) == 2


def test_the_scribe_has_a_thread_and_a_last_word(dsn: str) -> None:
    """What one bite holds is written at the end."""
    ours = Recorder(uuid.uuid4(), 600)
    writer = HistoryWriter(
        ours, Database(dsn, schema="public", timeout=5.0), clock=SYSTEM
    )
    writer.start()
    try:
        note(ours, 0)
        writer.allow(SYSTEM.monotonic() + 60)
        eventually(lambda: bool(read(dsn)))
        note(ours, 1)
    finally:
        writer.stop()
    assert writer.join(30.0)
    assert len(read(dsn)) == 2


def test_a_database_that_refuses_is_asked_less_and_less(dsn: str) -> None:
    """It was asked four times a second for ever, with a traceback each time."""
    clock, ours = ManualClock(), Recorder(uuid.uuid4(), 600)
    absent = Database(dsn + "_absent", schema="public", timeout=5.0)
    writer = HistoryWriter(ours, absent, clock=clock)
    loop = writer._loop
    loop.run_once()
    note(ours, 0)
    writer.allow(clock.monotonic() + 1)
    rests = []
    for _ in range(8):
        rests.append(loop.run_once())
        assert loop.failing
        clock.advance_us(SECOND)
        writer.allow(clock.monotonic())
    assert rests[-1] > 2 * rests[0]


def test_reports_that_wait_are_no_matter_of_the_garbage_collector() -> None:
    """Tens of thousands of them made each wake-up of a thousand slots 1 ms longer."""
    recorder_ = Recorder(uuid.uuid4(), 60)
    note(recorder_, 1)
    gc.collect()
    assert not gc.is_tracked(recorder_._waiting[0])


def test_a_locked_table_does_not_fill_the_server(dsn: str) -> None:
    """The server ends what nobody waits for; else each try would leave a connection."""
    database = Database(dsn, schema="public", timeout=0.2, role="history")
    recorder_ = Recorder(uuid.uuid4(), 60)
    HistoryWriter(recorder_, database, clock=ManualClock())
    note(recorder_, 1)
    with psycopg.connect(dsn) as locking:
        locking.execute("lock table pecker_history")
        for _ in range(3):
            with pytest.raises(DatabaseUnavailable):
                recorder_.flush(database, rows=10)

        def nobody_waits() -> bool:
            [(waiting,)] = locking.execute(
                "select count(*) from pg_stat_activity where datname ="
                " current_database() and application_name like '%history'"
                " and wait_event_type = 'Lock'"
            )
            return not waiting

        eventually(nobody_waits, 30.0)
    recorder_.flush(database, rows=10)
    database.close()
    assert pages(dsn) == 1


def test_a_long_history_is_read_seldom_and_in_small_bites(
    database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking for old pages reads all: ten entries of 100,000 slots took 1.6 s."""
    asked: list[list[str]] = []
    change = Database.change

    def watch(self: Database, label: str, **params: object) -> int:
        if label == "prune_history":
            asked.append(params["names"])  # type: ignore[arg-type]
        return change(self, label, **params)

    monkeypatch.setattr(Database, "change", watch)
    recorder_ = Recorder(uuid.uuid4(), 100_000)
    for nth in range(10 * SLOTS):
        for name in ("x", "y"):
            note(recorder_, nth, name=name)
    while recorder_.pending():
        recorder_.flush(database, rows=50)
    assert asked == [["x"], ["y"]]
    assert pages(dsn) == 20


def outcomes(dsn: str) -> dict[str, object]:
    """Return the row of the entry."""
    with psycopg.connect(dsn) as connection:
        cursor = connection.cursor(row_factory=dict_row)
        [row] = cursor.execute("select * from pecker_outcomes").fetchall()
    return row


def test_counts_of_several_processes_add_up(database: Database, dsn: str) -> None:
    """The last good and the last bad slot are the same whoever writes first."""
    one, two = (Recorder(uuid.uuid4(), 600, host=host) for host in ("a", "b"))
    note(one, 1, Report.SUCCEEDED)
    note(one, 4, Report.OVERRUN)
    note(two, 2, Report.FAILED)
    note(two, 3, Report.SUCCEEDED)
    one.flush(database, rows=10)
    assert outcomes(dsn)["failing"] is True
    two.flush(database, rows=10)
    row = outcomes(dsn)
    assert (row["succeeded"], row["failed"], row["overrun"]) == (2, 1, 1)
    assert (row["bad_report"], row["bad_host"]) == (Report.OVERRUN, "a")
    note(two, 5, Report.SUCCEEDED)
    two.flush(database, rows=10)
    assert outcomes(dsn)["failing"] is False
    # In a new era slots count anew, and are later whatever their instants.
    note(two, 0, Report.FAILED, era=1)
    two.flush(database, rows=10)
    assert outcomes(dsn)["failing"] is True


def test_slots_that_are_not_sent_are_not_delivered(
    database: Database, dsn: str
) -> None:
    """Until one is sent."""
    ours = Recorder(uuid.uuid4(), 600)
    for nth, (report, undelivered) in enumerate(
        (
            (PUBLISHED, False),
            (Report.FAILED_TO_SEND, True),
            (Report.MISSED, True),
            (PUBLISHED, False),
        )
    ):
        note(ours, nth, report)
        ours.flush(database, rows=10)
        assert outcomes(dsn)["undelivered"] is undelivered


def test_good_news_waits_and_bad_news_does_not(database: Database, dsn: str) -> None:
    """A thousand entries that run each second are not a thousand writes a second."""
    ours = Recorder(uuid.uuid4(), 600)

    def counted(nth: int, report: Report, now: float) -> object:
        note(ours, nth, report)
        ours.flush(database, rows=10, now=now)
        row = outcomes(dsn)
        return row["succeeded"], row["failed"]

    assert counted(1, Report.SUCCEEDED, 100.0) == (1, 0)
    assert counted(2, Report.SUCCEEDED, 101.0) == (1, 0)
    assert counted(3, Report.FAILED, 102.0) == (2, 1)
    # That it is well by now is news, too.
    assert counted(4, Report.SUCCEEDED, 103.0) == (3, 1)
    assert counted(5, Report.SUCCEEDED, 104.0) == (3, 1)
    assert counted(6, Report.SUCCEEDED, 103.0 + recorder.CALM) == (5, 1)


def test_what_was_raised_can_be_stored(database: Database, dsn: str) -> None:
    """Whatever it holds, on one line and cut."""
    ours = Recorder(uuid.uuid4(), 600, host="a")
    error = "Bad('\0\ud800\n" + "x" * 10_000
    ours.note("x", START, 0, 1, START, Report.FAILED, error)
    ours.flush(database, rows=10)
    said = outcomes(dsn)["bad_error"]
    assert isinstance(said, str)
    assert said.startswith("Bad('? x")
    assert len(said) == 200
