"""Slots that passed while nobody was there, and a clock that is not to be trusted."""

from __future__ import annotations

import pytest
from celery.schedules import crontab

from celery_pecker import signals
from celery_pecker.schedules.engine.upkeep import UpkeepPace
from celery_pecker.testing.manual import ManualClock
from tests.integration.schedules.conftest import Starter
from tests.integration.schedules.replicas import after, every, missed


@pytest.mark.parametrize(
    ("policy", "sent", "counted"),
    [
        ({}, 1, 9),
        ({"misfire": "skip", "grace": 0.1}, 0, 10),
        ({"misfire": "catch_up", "catch_up": 4}, 4, 6),
    ],
)
def test_a_pause_of_ten_slots_follows_the_misfire_policy(
    start: Starter, dsn: str, policy: dict[str, object], sent: int, counted: int
) -> None:
    """Coalesce runs one, skip none, catch up a bounded number; the rest is counted."""
    pecker = start({"sweep": every(10.0, **policy)})
    pecker.clock.advance_us(105_000_000)
    assert len(pecker.turn()) == sent
    pecker.turn()
    assert missed(dsn) == counted


def test_a_crontab_missed_for_days_runs_once(start: Starter, dsn: str) -> None:
    """As with beat; and the slot is the latest, not the first."""
    pace = UpkeepPace(round_every=3600.0)
    pecker = start({"nightly": crontab(minute="0", hour="2")}, pace=pace)
    pecker.clock.advance_us(int(5.5 * 86_400 * 1e6))
    [run] = pecker.turn()
    assert run.header["due_at"] == "2026-01-06T02:00:00.000000+00:00"
    assert missed(dsn, "nightly") == 5  # nights from the 1st to the 5th
    assert pecker.pass_time(86_400)[0].header["due_at"] == (
        "2026-01-07T02:00:00.000000+00:00"
    )


def test_a_crontab_s_run_has_to_end_before_the_next_slot(start: Starter) -> None:
    """Its gaps differ: the timeout is a bound, and the next slot is another."""
    policy = every(crontab(minute="1,2"), timeout=300.0)
    pecker = start({"sweep": policy}, pace=UpkeepPace(round_every=3600.0))
    first, second = pecker.pass_time(150)
    assert (first.header["due_at"], first.header["deadline"]) == (after(60), after(120))
    assert (second.header["due_at"], second.header["deadline"]) == (
        after(120),
        after(420),
    )
    [run] = pecker.pass_time(3600)[:1]
    assert run.header["deadline"] == after(3600 + 120)


@pytest.mark.parametrize("seconds", [-600.0, 600.0, -3.0, 3.0])
def test_a_stepped_clock_neither_stops_nor_doubles(
    start: Starter, seconds: float
) -> None:
    """The pace is kept in real time; slots of the new era are new slots (I1)."""
    told: list[float] = []

    def listen(event: signals.ClockStepped) -> None:
        told.append(event.seconds)

    signals.clock_stepped.connect(listen)
    try:
        pecker = start({"sweep": 1.0})
        pecker.pass_time(10.2)
        before = len(pecker.publisher.sent)
        pecker.clock.step(seconds)
        pecker.pass_time(20)
    finally:
        signals.clock_stepped.disconnect(listen)
    later = pecker.publisher.sent[before:]
    within_slack = 3 if seconds == -3.0 else 0  # nobody claims meanwhile
    assert 19 - within_slack <= len(later) <= 21  # twenty seconds
    ids = [one.task_id for one in pecker.publisher.sent]
    assert len(ids) == len(set(ids))
    assert told[0] == pytest.approx(seconds, abs=0.01)


def test_a_fresh_replica_does_not_repeat_a_daily_job_after_a_small_step_back(
    start: Starter,
) -> None:
    """Its row lies ahead of the clock by less than its period: it waits."""
    clock = ManualClock()
    schedule = {"noon": crontab(minute="0", hour="12")}
    hourly = UpkeepPace(round_every=3600.0)
    old = start(dict(schedule), clock, pace=hourly)
    assert len(old.pass_time(12 * 3600 + 10)) == 1
    clock.step(-30)
    fresh = start(dict(schedule), clock, pace=hourly)
    assert fresh.pass_time(2 * 3600) == []
