"""What was sent and no worker reports of: from which silence it follows."""

from __future__ import annotations

import uuid
from datetime import timedelta

import psycopg
import pytest
from celery import Celery

from celery_pecker.kernel.clock import SYSTEM, to_us
from celery_pecker.kernel.settings import Settings
from celery_pecker.schedules.declarations.beat_schedule import BeatSchedule
from celery_pecker.schedules.engine import repository
from celery_pecker.schedules.engine.model import RunMode
from celery_pecker.schedules.engine.upkeep import TERM
from celery_pecker.schedules.history.recorder import Recorder
from celery_pecker.schedules.history.report import Report
from celery_pecker.schedules.replica.replica import Claimant
from celery_pecker.testing.manual import ManualPecker
from tests.integration.overview.conftest import SECOND, Stage, entry

DAY = 86_400


class Reporters:
    """A scheduler and a worker that report, and what is unreported then."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.start = stage.now = SYSTEM.now()
        self._beat = Recorder(uuid.uuid4(), 600)
        self._worker = Recorder(uuid.uuid4(), 600, host="w")

    def sent(self, name: str, seconds: int) -> None:
        """Have the scheduler report that a slot was published."""
        self._note(self._beat, name, seconds, Report.PUBLISHED)

    def ended(self, name: str, seconds: int, report: Report = Report.SUCCEEDED) -> None:
        """Have the worker report of a slot."""
        self._note(self._worker, name, seconds, report)

    def unreported(self, after: float) -> dict[str, int]:
        """Return what is unreported so many seconds after the start, and since when."""
        self.stage.now = self.start + timedelta(seconds=after)
        rows = self.stage.overview.page().rows
        found = {row.name: row.outcomes.unreported_us for row in rows}
        return {name: since for name, since in found.items() if since is not None}

    def _note(self, by: Recorder, name: str, seconds: int, report: Report) -> None:
        due_us = to_us(self.start) + seconds * SECOND
        by.note(name, due_us, 0, abs(seconds), due_us + 500, report)
        self.stage.now = SYSTEM.now()
        by.flush(self.stage.database, rows=50)


@pytest.fixture
def reporters(stage: Stage) -> Reporters:
    """Give a scheduler and a worker."""
    return Reporters(stage)


def test_what_no_worker_reports_of_is_unreported(reporters: Reporters) -> None:
    """Messages of a queue that nobody listens to, where workers report of others."""
    names = ("served", "misrouted", "long", "stopped")
    reporters.stage.declare(*names)
    for name in names:
        reporters.sent(name, 1)
    assert not reporters.unreported(120), "plain workers cannot report"

    reporters.ended("served", 1)
    reporters.ended("stopped", 1, Report.FAILED)
    reporters.ended("long", 1, Report.RUNNING)
    for name in ("served", "misrouted", "stopped"):
        reporters.sent(name, 2)
    reporters.ended("served", 2)

    assert not reporters.unreported(55)
    before = reporters.unreported(120)
    assert {*before} == {"misrouted", "stopped"}
    overview = reporters.stage.overview
    assert [*overview.failing()] == ["stopped", "misrouted"]
    totals = overview.totals()
    assert (totals.failing, totals.unreported) == (1, 1)

    reporters.sent("misrouted", 3)
    after = reporters.unreported(120)
    assert after["misrouted"] == before["misrouted"], "nothing is put off"
    reporters.ended("misrouted", 2, Report.REFUSED_LATE)
    after = reporters.unreported(120)
    assert after["misrouted"] > before["misrouted"], "a worker is there, late"


def test_reports_of_long_ago_say_nothing_of_today(reporters: Reporters) -> None:
    """The workers of the project report no more; what was awaited is not, either."""
    reporters.stage.declare("tick", "new")
    reporters.sent("tick", -8 * DAY)
    reporters.ended("tick", -8 * DAY)
    reporters.sent("tick", -8 * DAY + 1)
    assert {*reporters.unreported(120)} == {"tick"}
    reporters.sent("tick", 1)
    reporters.sent("new", 1)
    assert not reporters.unreported(120)

    reporters.ended("new", -6 * DAY)
    reporters.sent("tick", 2)
    assert {*reporters.unreported(120)} == {"tick", "new"}


def test_an_entry_of_each_month_is_awaited(reporters: Reporters) -> None:
    """Where it is the only one, no worker can have reported within a week."""
    reporters.stage.declare("monthly", "other")
    reporters.sent("monthly", -30 * DAY)
    reporters.ended("monthly", -30 * DAY)
    reporters.sent("other", 1)
    reporters.sent("monthly", 1)
    assert {*reporters.unreported(120)} == {"monthly"}


def test_a_message_that_waits_for_its_countdown_is_not_awaited(
    reporters: Reporters,
) -> None:
    """It lies in the memory of a worker, which has nothing to report."""
    reporters.stage.declare("later", countdown_us=600 * SECOND)
    reporters.stage.declare("tick")
    reporters.sent("tick", 1)
    reporters.ended("tick", 1)
    reporters.sent("later", 1)
    assert not reporters.unreported(650)
    assert {*reporters.unreported(670)} == {"later"}


def test_a_local_run_is_no_report_of_a_worker(reporters: Reporters) -> None:
    """Of messages, plain workers report nothing still; nor does a broker have it."""
    reporters.stage.declare("check", run=RunMode.LOCAL)
    reporters.stage.declare("tick")
    reporters.sent("check", 1)
    reporters.ended("check", 1)
    reporters.sent("tick", 2)
    reporters.sent("check", 2)
    assert not reporters.unreported(120)
    reporters.ended("tick", 2)
    reporters.sent("tick", 3)
    reporters.sent("check", 3)
    assert {*reporters.unreported(120)} == {"tick"}


def test_without_a_history_nothing_old_is_shown(
    reporters: Reporters, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that nobody writes any more would say for ever what was once so."""
    monkeypatch.setattr(repository, "CHUNK", 2)
    names = [f"tick {nth}" for nth in range(5)]
    reporters.stage.declare(*names)
    for name in names:
        reporters.sent(name, 1)
        reporters.ended(name, 1)
        reporters.sent(name, 2)
    assert {*reporters.unreported(120)} == {*names}

    def rows() -> int:
        with psycopg.connect(dsn) as connection:
            [(count,)] = connection.execute(
                "select (select count(*) from pecker_history)"
                " + (select count(*) from pecker_outcomes)"
            )
        return int(count)

    with ManualPecker([entry("tick 0", SECOND)], dsn=dsn) as pecker:
        pecker.pass_time(12)
        assert rows() > 10
        pecker.repository.keeps_reports = False
        pecker.pass_time(TERM + 60)
    assert rows() == 0
    assert not reporters.unreported(120)


@pytest.mark.parametrize("kept", [0, 600])
def test_a_scheduler_knows_whether_there_is_a_history(dsn: str, kept: int) -> None:
    """By the setting."""
    app = Celery("desk", broker="memory://", set_as_current=False)
    settings = Settings(dsn=dsn, app="desk", history=kept)
    made = Claimant(app, BeatSchedule(app), settings, kind="beat")
    assert made.repository.keeps_reports is (kept > 0)
