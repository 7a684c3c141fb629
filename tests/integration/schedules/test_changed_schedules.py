"""An entry whose schedule changed, or that comes back, counts from then on."""

from __future__ import annotations

from datetime import UTC, datetime

import psycopg
import pytest
from celery.schedules import crontab, schedule

from celery_pecker.schedules.engine.upkeep import UpkeepPace
from celery_pecker.testing.manual import ManualClock
from tests.integration.schedules.conftest import Starter
from tests.integration.schedules.replicas import after, due, every, missed

HOUR, DAY = 3600.0, 86_400.0
SLOW = UpkeepPace(round_every=3000.0)


def test_a_shorter_period_counts_no_slots_before_the_change(
    start: Starter, dsn: str
) -> None:
    """From a day to a second: the seconds of half a day were never due."""
    clock = ManualClock()
    start({"sweep": DAY}, clock)
    clock.advance_us(int(DAY / 2) * 1_000_000)
    pecker = start({"sweep": 1.0}, clock)
    pecker.pass_time(3.0)
    assert due(pecker) == [after(DAY / 2 + n) for n in (1, 2, 3)]
    assert missed(dsn) == 0


def test_a_shorter_period_catches_up_nothing(start: Starter) -> None:
    """Ten missed slots are caught up; these were not missed."""
    clock = ManualClock()
    start({"sweep": every(DAY, misfire="catch_up", catch_up=10)}, clock)
    clock.advance_us(int(DAY / 2) * 1_000_000)
    pecker = start({"sweep": every(60.0, misfire="catch_up", catch_up=10)}, clock)
    pecker.pass_time(119.0)
    assert due(pecker) == [after(DAY / 2 + 60)]


def test_another_crontab_runs_at_its_own_instants_only(start: Starter) -> None:
    """A run at three o'clock, moved to four at noon, does not run at noon."""
    clock = ManualClock(datetime(2026, 3, 3, tzinfo=UTC))
    start({"sweep": crontab(hour=3, minute=0)}, clock, pace=SLOW).pass_time(12 * HOUR)
    pecker = start({"sweep": crontab(hour=4, minute=0)}, clock, pace=SLOW)
    pecker.pass_time(24 * HOUR)
    assert due(pecker) == ["2026-03-04T04:00:00.000000+00:00"]


def test_an_entry_that_was_out_runs_none_of_the_slots_of_that_time(
    start: Starter, dsn: str
) -> None:
    """Others lived without it for 23 hours: its slots were due to nobody."""
    clock = ManualClock()
    start({"sweep": HOUR, "other": HOUR}, clock, pace=SLOW).pass_time(HOUR / 2)
    start({"other": HOUR}, clock, pace=SLOW).pass_time(23 * HOUR)
    pecker = start({"sweep": HOUR, "other": HOUR}, clock, pace=SLOW)
    pecker.pass_time(HOUR / 2)
    slots = [one.header["due_at"] for one in pecker.publisher.sent]
    assert slots == [after(24 * HOUR)] * 2
    assert missed(dsn) == 0


def test_an_outage_of_all_is_no_change(start: Starter, dsn: str) -> None:
    """Nobody lived without the entry: its misfire policy says what runs.

    Nor do those that start beside this one prove anything.
    """
    clock = ManualClock()
    start({"sweep": HOUR}, clock, pace=SLOW).pass_time(HOUR / 2)
    clock.advance_us(int(23 * HOUR) * 1_000_000)
    start({"other": HOUR}, clock).pass_time(30)
    pecker = start({"sweep": HOUR}, clock)
    assert due(pecker) == [after(23 * HOUR)]
    assert missed(dsn) == 22


def test_local_replicas_are_not_missed_by_those_that_publish(
    start: Starter, dsn: str
) -> None:
    """With all workers down, beat declares no local entry: that is their outage."""
    clock = ManualClock()
    start({"sweep": HOUR}, clock, pace=SLOW).pass_time(HOUR / 2)
    with psycopg.connect(dsn) as connection:
        connection.execute("update pecker_declarations set run = 'local'")
    start({"other": HOUR}, clock, pace=SLOW).pass_time(23 * HOUR)
    assert due(start({"sweep": HOUR}, clock)) == [after(23 * HOUR)]


def test_a_class_without_words_of_its_own_is_the_same_in_each_process(
    start: Starter,
) -> None:
    """Its address in memory is no change."""

    class Odd(schedule):
        def __repr__(self) -> str:
            return object.__repr__(self)

    clock = ManualClock()
    start({"sweep": Odd(HOUR)}, clock).pass_time(1)
    clock.advance_us(int(2 * HOUR) * 1_000_000)
    pecker = start({"sweep": Odd(HOUR)}, clock)
    pecker.pass_time(1)
    assert len(due(pecker)) == 1


def test_schedulers_that_declare_one_name_differently_say_so_once(
    start: Starter, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As with a minute made from hash(), which is another one in each process.

    A deploy is over within minutes, and is no difference. Whoever of the two renews the
    declaration, both are sent.
    """
    clock = ManualClock()
    one = start({"sweep": crontab(minute="*/2"), "same": 60.0}, clock)
    other = start({"sweep": crontab(minute="1-59/2"), "same": 60.0}, clock)

    def pass_minutes(count: int) -> list[list[str]]:
        for _ in range(count * 6):
            one.pass_time(10.0)
            other.turn()
        query = "select distinct differing from pecker_replicas where differing <> '{}'"
        with psycopg.connect(dsn) as connection:
            return [names for (names,) in connection.execute(query)]

    assert pass_minutes(2) == []
    assert pass_minutes(8) == [["sweep"]]
    pass_minutes(10)
    lines = [text for text in caplog.messages if "another task or schedule" in text]
    assert 1 <= len(lines) <= 2, "once for each process"
    assert "sweep" in lines[0]
    assert {*due(one), *due(other)} >= {after(60), after(120)}
