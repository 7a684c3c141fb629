"""Figures of the history: counted in minutes, folded, purged."""

from __future__ import annotations

import json
import logging
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from celery_pecker.kernel.clock import SYSTEM, to_us
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.figure_tables import (
    EVERY,
    FOLDING,
    MOST,
    FiguresWriter,
    points,
)
from celery_pecker.kernel.figures import (
    KEPT,
    LATE,
    MINUTE_US,
    PARTS,
    RUN,
    WAIT,
    Figures,
    quantiles,
    read,
)
from celery_pecker.schedules.history.report import Report
from celery_pecker.surfaces.views.history import Past, past
from celery_pecker.testing import eventually
from celery_pecker.testing.manual import ManualClock
from tests.database_clock import DatabaseClock
from tests.integration.worker.crew import Crew

HOUR = 60 * MINUTE_US
MINUTE = 150.0
"""Seconds: what is left of a minute by the clock, and a busy machine."""
TOP = SYSTEM.now().replace(minute=0, second=0, microsecond=0)
"""The last full hour: rows near it are young enough to be written."""


@pytest.fixture
def clock(dsn: str) -> Iterator[DatabaseClock]:
    """Give the database's clock; the test steps it."""
    with DatabaseClock(dsn) as made:
        yield made


@pytest.fixture
def database(clock: DatabaseClock) -> Iterator[Database]:
    """Give the seam, under that clock."""
    found = Database(clock.dsn, schema="public", timeout=5.0, role="test")
    yield found
    found.close()


class Process:
    """A process that counts, and writes what it has counted."""

    def __init__(
        self, database: Database, clock: DatabaseClock, *, folds: bool = False
    ) -> None:
        self.figures = Figures()
        self.holder = uuid.uuid4()
        self.time = ManualClock()
        self._clock = clock
        self.writer = FiguresWriter(
            self.figures, database, self.holder, clock=self.time, folds=lambda: folds
        )

    def at(self, minute: int, *keys: str, subject: str = "entry x") -> None:
        """Count some at so many minutes behind the hour, and write that minute."""
        at_us = to_us(TOP) + minute * MINUTE_US
        for key in keys:
            self.figures.add(subject, at_us, key)
        self.write(minute + 1)

    def write(self, minute: int) -> None:
        """Write what is over, at so many minutes behind the hour."""
        now = TOP + timedelta(minutes=minute)
        self._clock.step(now - SYSTEM.now())
        for _ in range(2):  # the second look finds that it is over
            self.time.advance_us(int((EVERY + 10) * 1e6))
            self.writer.step()

    def fold(self) -> None:
        """Do all folding that is due."""
        for _ in range(4 * PARTS):
            self.time.advance_us(int(FOLDING * 1e6))
            self.writer.step()
            self.time.advance_us(int(EVERY * 1e6))


def rows(dsn: str) -> list[tuple[int, datetime, Counter[str]]]:
    """Return step, instant and cell of entry x of each row that has one, in order."""
    with psycopg.connect(dsn) as connection:
        found = connection.execute(
            "select step, at, figures ->> 'entry x' from pecker_figures"
            " where figures ? 'entry x' order by step, at, holder"
        ).fetchall()
    return [(step, at, Counter(read(text))) for step, at, text in found]


def total(database: Database, minute: int, length: int) -> Counter[str]:
    """Return what a chart says of entry x, of so many minutes before that one."""
    now_us = to_us(TOP) + minute * MINUTE_US
    since_us = now_us - length * MINUTE_US
    _, cells = points(database, "entry x", since_us, now_us, now_us)
    return sum(map(Counter, cells.values()), Counter())


def test_a_minute_is_written_once_and_read(
    database: Database, clock: DatabaseClock, dsn: str
) -> None:
    """Written again after an answer that got lost it counts no more."""
    process = Process(database, clock)
    process.at(0, "l4", "l4", "o1")
    assert rows(dsn) == [(1, TOP, Counter(l4=2, o1=1))]
    late = process.figures.ready(0.0, leaving=True)
    assert not late
    before = json.dumps({"entry x": "l4:2 o1:1"})
    with psycopg.connect(dsn) as connection:
        [(part, text)] = connection.execute(
            "select part, figures::text from pecker_figures where figures ? 'entry x'"
        ).fetchall()
        assert json.loads(text) == json.loads(before)
    database.change(
        "write_figures",
        now=None,
        holder=process.holder,
        parts=[part],
        ats=[TOP],
        figures=[before],
    )
    assert total(database, 5, 10) == Counter(l4=2, o1=1)


def test_processes_add_up_and_what_comes_late_counts_in_its_next_minute(
    database: Database, clock: DatabaseClock, dsn: str
) -> None:
    """Each has rows of its own; none writes over what it has written."""
    one, other = Process(database, clock), Process(database, clock)
    one.at(0, "o11")
    other.at(0, "o11", "o12")
    assert total(database, 5, 10) == Counter(o11=2, o12=1)
    one.figures.add("entry x", to_us(TOP), "o11")
    one.write(3)
    assert total(database, 5, 10) == Counter(o11=3, o12=1)
    assert [at for _, at, _ in rows(dsn)] == [TOP, TOP, TOP + timedelta(minutes=1)]


def test_minutes_become_quarters_and_hours_and_go(
    database: Database, clock: DatabaseClock, dsn: str
) -> None:
    """Whoever folds, nothing is counted twice or lost; and a chart sees no seam."""
    writers = [Process(database, clock, folds=True) for _ in range(2)]
    for minute in range(0, 100, 5):
        writers[minute % 2].at(minute, "o11", "D")
    every = Counter(o11=20, D=1)
    for minute in (100, 130):
        clock.step(TOP + timedelta(minutes=minute) - SYSTEM.now())
        for one in writers:
            one.fold()
        for length in (150, 10 * 60, 9 * 24 * 60):  # a chart of each step
            found = total(database, minute, length)
            found["D"] = min(found["D"], 1)  # a maximum, which `sum` has added up
            assert found == every, (minute, length)
    steps = Counter(step for step, _, _ in rows(dsn))
    assert steps == {1: 20, 15: 7, 60: 1}
    for age, left in (
        (KEPT[1] + 130, {15, 60}),
        (KEPT[15] + 130, {60}),
        (KEPT[60], ()),
    ):
        clock.step(timedelta(minutes=age + 130))
        for one in writers:
            one.fold()
        assert {step for step, _, _ in rows(dsn)} == {*left}, age


@pytest.mark.parametrize(
    ("length", "minutes"),
    [(5, 1), (6 * 60, 1), (24 * 60, 15), (7 * 24 * 60, 30), (30 * 24 * 60, 120)],
)
def test_a_chart_has_a_bounded_number_of_points(
    database: Database, length: int, minutes: int
) -> None:
    """What a chart takes grows with its points, not with the time it shows."""
    now_us = to_us(TOP)
    since_us = now_us - length * MINUTE_US
    wide, _ = points(database, "entry x", since_us, now_us, now_us)
    assert wide == minutes
    assert length / wide <= MOST


def test_what_comes_after_the_fold_is_not_counted(
    database: Database, clock: DatabaseClock, dsn: str
) -> None:
    """A process that was frozen for a quarter of an hour drops its minutes."""
    process = Process(database, clock)
    process.figures.add("entry x", to_us(TOP), "o11")
    process.write(25)
    assert rows(dsn) == []


def test_a_table_that_cannot_be_written_is_said_once(
    database: Database,
    clock: DatabaseClock,
    dsn: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing raises, and what waits is written when the table is back."""
    process = Process(database, clock, folds=True)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("alter table pecker_figures rename to away")
        with caplog.at_level(logging.WARNING):
            process.at(0, "o11")
            process.write(2)
        said = [one for one in caplog.messages if "figures" in one]
        assert len(said) == 1, said
        connection.execute("alter table away rename to pecker_figures")
    process.write(3)
    assert total(database, 5, 10) == Counter(o11=1)


@pytest.mark.cluster
def test_processes_write_them_and_a_killed_one_loses_its_minute_alone(
    dsn: str, redis_url: str, tmp_path: Path
) -> None:
    """Of real ones: lateness by the scheduler, wait, run time and end by the worker."""
    crew = Crew(
        tmp_path,
        dsn=dsn,
        broker=redis_url,
        name="crew",
        beat_schedule={
            "fine": {"task": "ran", "schedule": 1.0},
            "fails here": {
                "task": "fails",
                "schedule": 1.0,
                "pecker": {"run": "local"},
            },
        },
        pecker_app_version="v1",
    )
    tables = Database(dsn, schema="crew", timeout=5.0, role="test")
    try:
        worker = crew.worker("threads")
        seen = of(tables)

        def known() -> bool:
            """Return whether a minute was over, and marks were looked for."""
            ends = seen("fine").total.succeeded and seen("fails here").total.bad
            return bool(ends) and len(seen("").marks) > 1

        eventually(known, MINUTE, "a minute is over, and was written")
        worker.kill("SIGKILL")
        fine, here, both = seen("fine"), seen("fails here"), seen("")
        for one in (fine.total, here.total):
            assert one.published
            assert None not in (one.late_p95, one.wait_p95, one.run_p95), one
        assert here.outcomes["failed"] == here.total.bad
        assert both.total.succeeded == fine.total.succeeded
        kinds = {one.kind: one.what for one in both.marks}
        assert kinds["deploy"] == "v1"
        assert {"postgresql", "scheduler"} <= kinds.keys()
    finally:
        tables.close()
        crew.close()


def of(tables: Database) -> Callable[[str], Past]:
    """Return what reads the last hour of an entry."""
    return lambda name: past(tables, "entry", name, length_us=HOUR)


def test_lost_runs_are_marks_of_every_chart(
    database: Database, clock: DatabaseClock
) -> None:
    """One for a point, with how many; of another entry they are in its own chart."""
    process = Process(database, clock)
    process.at(0, "o15", "o15", "o13", "o11")
    process.at(2, "o15", subject="entry y")

    def marked(of: str, name: str) -> list[tuple[str, str]]:
        shown = past(database, of, name, length_us=HOUR)
        return [(one.kind, one.what) for one in shown.marks]

    mine = [("overrun", "a run"), ("lost", "2 runs")]
    assert sorted(marked("entry", "x")) == sorted(mine)
    assert marked("entry", "y") == [("lost", "a run")]
    for of in ("entry", "task", "queue", "limit", "job"):
        both = marked(of, "")
        assert both[0] == ("lost", "a run"), of
        assert sorted(both[1:]) == sorted(mine), of


def test_two_versions_side_by_side(
    database: Database, clock: DatabaseClock, dsn: str
) -> None:
    """An older writer leaves out what is new, a newer one writes what nobody knows yet.

    Both add up here, and a fold keeps what it does not know.
    """
    older, newer = Process(database, clock), Process(database, clock, folds=True)
    older.at(0, "o1", "o11", "l4")
    newer.at(0, "o1", "o11", "l4", "w3", "r5", "c", "z9", "Q", "o99")
    newer.write(30)
    newer.fold()
    assert [step for step, _, _ in rows(dsn)] == [1, 1, 15]
    assert {"z9", "Q", "o99", "c"} <= rows(dsn)[-1][2].keys()
    shown = past(database, "entry", "x", length_us=24 * HOUR)
    assert (shown.total.succeeded, shown.total.bad, shown.total.cancelled) == (2, 0, 1)
    assert None not in (shown.total.late_p95, shown.total.wait_p95)
    assert shown.outcomes == {"published": 2, "succeeded": 2}
    # Of what an older version counts nothing of, nothing is known.
    nothing = past(database, "job", "", length_us=24 * HOUR)
    assert not nothing.points
    older.at(31, "h", "t", subject="limit db")
    [point] = past(database, "limit", "db", length_us=HOUR).points
    assert (point.held, point.traffic, point.peak) == (None, None, None)


def test_texts_of_a_point_add_up_and_percentiles_lie_in_their_buckets() -> None:
    """Rows of a point come as one text; within a bucket times are spread evenly."""
    cell = read("l0:1 l4:97 D:3 l4:1 D:2 l9:1")
    assert cell == {"l0": 1, "l4": 98, "l9": 1, "D": 3}
    found = quantiles(cell, 0.01, 0.5, 0.99, 1.0)
    assert found[WAIT] == found[RUN] == [None] * 4
    first, half, most, last = found[LATE]
    assert (first, most) == (0.001, 0.004)
    assert half is not None
    assert 0.0028 < half < 0.004
    assert last == 0.022627  # the upper end of its bucket


def test_the_numbers_of_reports_are_those_of_the_tables() -> None:
    """They stand in rows that a later version reads."""
    assert (Report.PUBLISHED, Report.SUCCEEDED, Report.FAILED) == (1, 11, 12)
