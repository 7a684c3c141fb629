"""Starts, ends, single runs, pauses, rows that cannot be read, and names of code."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from celery_pecker.schedules.engine.upkeep import TERM, UpkeepPace
from celery_pecker.schedules.history.report import Report
from celery_pecker.testing.manual import START, ManualClock
from tests.integration.schedules.conftest import Starter
from tests.integration.schedules.replicas import (
    after,
    ask,
    due,
    missed,
    names,
    pause,
    pending,
    told,
)
from tests.integration.schedules.stored import follower, following_of, store

HOUR, DAY = 3600.0, 86_400.0
SLOW = UpkeepPace(round_every=3000.0, follow_every=3000.0)


SHORT = UpkeepPace(follow_every=10.0)


def at(seconds: float) -> object:
    """Return an instant so long after the start."""
    return START + timedelta(seconds=seconds)


def test_no_slot_before_the_start_and_none_after_the_end(dsn: str) -> None:
    """Both are slots themselves."""
    clock = ManualClock()
    store(dsn, "sweep", {"every": 10}, clock=clock, start=at(25), end=at(45))
    with follower(dsn, clock) as (pecker, _):
        pecker.pass_time(120)
        assert due(pecker) == [after(25), after(35), after(45)]
        assert missed(dsn) == 0


def test_after_an_outage_the_last_slot_before_the_end_runs(dsn: str) -> None:
    """A grid that only ends counts from its row, however many slots passed."""
    clock = ManualClock()
    store(dsn, "sweep", {"every": 7}, clock=clock, end=at(3_000))
    clock.advance_us(5_000_000_000)
    with follower(dsn, clock) as (pecker, _):
        pecker.pass_time(100)
        assert due(pecker) == [after(2_996)]


def test_a_crontab_with_an_end_stops(dsn: str) -> None:
    """As an interval does."""
    clock = ManualClock()
    store(dsn, "sweep", {"crontab": "* * * * *"}, clock=clock, end=at(150))
    with follower(dsn, clock) as (pecker, _):
        pecker.pass_time(400)
        assert due(pecker) == [after(60), after(120)]


def test_a_clock_that_steps_back_runs_nothing_before_its_first_instant(
    dsn: str,
) -> None:
    """A single run stays one, and what has a start waits for it."""
    clock = ManualClock()
    store(dsn, "late", {"every": 30}, clock=clock, start=at(600))
    once = {"once": (START + timedelta(seconds=600)).isoformat()}
    store(dsn, "one", once, clock=clock, once_at=at(600))
    with follower(dsn, clock) as (pecker, _):
        pecker.pass_time(60)
        clock.advance_us(-1_200_000_000)
        pecker.pass_time(60)
        assert due(pecker) == []
        pecker.pass_time(1_700)
        sent = [(one.name, one.header["due_at"]) for one in pecker.publisher.sent]
        first = (START + timedelta(seconds=600)).isoformat(timespec="microseconds")
        assert sorted(sent) == [("late", first), ("one", first)]


def test_one_run_is_one_run(dsn: str) -> None:
    """Whoever is there at the instant or comes later; a day later it is forgotten."""
    clock = ManualClock()
    when = at(100)
    store(dsn, "once", {"once": str(when)}, clock=clock, once_at=when)
    with follower(dsn, clock) as (pecker, _):
        pecker.pass_time(200)
        assert due(pecker) == [after(100)]
        assert pecker.service.entries == 0
    with follower(dsn, clock, pace=SLOW) as (pecker, _):
        assert pecker.service.entries == 0
        pecker.pass_time(DAY + 2 * HOUR)
        assert pecker.publisher.sent == []
    assert names(dsn) == set()
    with psycopg.connect(dsn) as connection:
        left = connection.execute(
            "select name from pecker_schedules"
            " union all select name from pecker_declarations"
        ).fetchall()
    assert left == []


def test_the_only_run_of_a_replica_that_died_is_sent_again(dsn: str) -> None:
    """Claimed and not confirmed: those that had forgotten it, and new ones, find it."""
    clock = ManualClock()
    when = at(100)
    store(dsn, "once", {"once": str(when)}, clock=clock, once_at=when)
    with follower(dsn, clock) as (forgot, _):
        clock.advance_us(100_000_000)
        forgot.turn()
        assert due(forgot) == [after(100)]
        forgot.pass_time(130)
        assert forgot.service.entries == 0
        with psycopg.connect(dsn) as connection:
            connection.execute(
                "insert into pecker_pending"
                " select name, executed_at, era, epoch, holder, executed_at"
                " from pecker_tasks"
            )
        with follower(dsn, clock) as (fresh, _):
            assert fresh.service.entries == 1
        forgot.pass_time(10)
        assert due(forgot) == [after(100)] * 2


def test_slots_of_a_paused_schedule_pass(dsn: str) -> None:
    """The row says so, without a new version."""
    clock = ManualClock()
    store(dsn, "sweep", {"every": 10}, clock=clock)
    with follower(dsn, clock) as (pecker, _):
        pecker.pass_time(11)
        pause(dsn)
        pecker.pass_time(30)
        pause(dsn, paused=False)
        pecker.pass_time(10)
        assert due(pecker) == [after(10), after(50)]
        assert missed(dsn) == 0


UNREADABLE: list[dict[str, Any]] = [
    {"schedule": {"every": "often"}},
    {"schedule": {"moon": "full"}},
    {"schedule": [1, 2]},
    {"schedule": {"cron": "0 0 30 2 *"}},
    {"schedule": {"every": 10}, "misfire": "never"},
    {"schedule": {"every": 10}, "run": "elsewhere"},
    {"schedule": {"every": 10}, "args": {"no": "list"}},
]


@pytest.mark.parametrize("row", UNREADABLE)
def test_a_row_that_cannot_be_read_is_parked_and_the_others_run(
    dsn: str, row: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Named once, counted where people look, and followed again once it is mended."""
    clock = ManualClock()
    store(dsn, "good", {"every": 10}, clock=clock)
    store(dsn, "odd", **row, clock=clock)
    with caplog.at_level(logging.ERROR), follower(dsn, clock) as (pecker, _):
        pecker.pass_time(35)
        assert due(pecker) == [after(10), after(20), after(30)]
        assert pecker.service.unreadable == 1
        [said] = [one for one in caplog.messages if "cannot be read" in one]
        assert "'odd', version 1" in said
        assert unreadable(dsn) == 1
        store(dsn, "odd", {"every": 10}, clock=clock)
        pecker.pass_time(10)
        assert pecker.service.unreadable == 0
        assert [one.name for one in pecker.publisher.sent][3:] == ["good", "odd"]


FORBIDDEN: list[dict[str, Any]] = [
    {"task": "admin.wipe"},
    {"options": {"link": [{"task": "admin.wipe"}]}},
    {"options": {"headers": {"task": "admin.wipe"}}},
    {"options": {"headers": {"sharding_sources": [[-1, {}]]}}},
    {"options": {"headers": {"_pecker_guarded": True}}},
]


@pytest.mark.parametrize("row", FORBIDDEN, ids=str)
def test_what_another_app_stored_does_not_run(
    dsn: str, row: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """An app without a list, an older version, a hand: the list holds when it runs."""
    clock = ManualClock()
    store(dsn, "good", {"every": 10}, clock=clock)
    store(dsn, "sneaked", {"every": 10}, **row, clock=clock)
    with (
        caplog.at_level(logging.ERROR),
        follower(dsn, clock, allowed_tasks=["proj.*"]) as (pecker, built),
    ):
        pecker.pass_time(35)
        assert due(pecker) == [after(10), after(20), after(30)]
        assert pecker.service.unreadable == 1
        assert "sneaked" not in built.built
    [reason] = [one for one in caplog.messages if "'sneaked', version 1" in one]
    assert "pecker_allowed_tasks" in reason or "options is {'headers'" in reason


def test_one_whose_message_cannot_be_built_is_parked_with_its_requested_runs(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One asked for before ends at once, one asked for after in five minutes."""
    clock = ManualClock()
    store(dsn, "sweep", {"every": 3_600}, clock=clock, options={"compression": "no"})
    store(dsn, "sound", {"every": 10}, clock=clock)
    with follower(dsn, clock, history=60) as (pecker, destination):
        destination.wrong["sweep"] = "KeyError: 'no'"
        ask(pecker)
        pecker.pass_time(21)
        assert (pecker.service.unreadable, missed(dsn), pending(dsn)) == (1, 1, 0)
        assert due(pecker) == [after(10), after(20)]
        assert "'sweep', version 1, cannot be read and does not run here" in caplog.text
        assert "its message cannot be built: KeyError: 'no'" in caplog.text
        ask(pecker)
        pecker.pass_time(290)
        assert pending(dsn) == 1
        pecker.pass_time(15)
        assert (missed(dsn), pending(dsn)) == (2, 0)
        assert told(dsn) == [Report.MISSED] * 2
        del destination.wrong["sweep"]
        store(dsn, "sweep", {"every": 3_600}, clock=clock)
        ask(pecker)
        assert "sweep" in {one.name for one in pecker.pass_time(5)}
        assert pecker.service.unreadable == 0


def unreadable(dsn: str) -> int:
    """Return what the replica says of itself."""
    with psycopg.connect(dsn) as connection:
        [(count,)] = connection.execute("select unreadable from pecker_replicas")
    return int(count)


def test_a_row_without_its_hot_row_is_parked(dsn: str) -> None:
    """Written by hand: nothing says when it ran last."""
    clock = ManualClock()
    store(dsn, "sweep", {"every": 10}, clock=clock)
    with psycopg.connect(dsn) as connection:
        connection.execute("delete from pecker_tasks")
    with follower(dsn, clock) as (pecker, _):
        pecker.pass_time(30)
        assert (pecker.service.unreadable, names(dsn)) == (1, set())


def test_code_takes_a_stored_name_over_and_gives_it_back(
    dsn: str, start: Starter
) -> None:
    """Replicas of older code win nothing meanwhile; without the code they do again."""
    clock = ManualClock()
    store(dsn, "sweep", {"every": 10}, clock=clock, options={"countdown": 3})
    with follower(dsn, clock, pace=SHORT) as (older, _):
        older.pass_time(12)
        newer = start({"sweep": 7.0}, clock)
        older.service.step()
        older.pass_time(30)
        assert due(older) == [after(10)]
        newer.turn()
        assert len(due(newer)) == 1
        with psycopg.connect(dsn) as connection:
            [(stored,)] = connection.execute("select stored from pecker_declarations")
            connection.execute("update pecker_declarations set countdown_us = null")
        assert not stored
        older.pass_time(3 * TERM)
        sent = due(older)[1:]
        assert sent
        assert clock.monotonic() - 10 < seconds(sent[-1]) <= clock.monotonic()
        with psycopg.connect(dsn) as connection:
            [row] = connection.execute(
                "select stored, countdown_us from pecker_declarations"
            )
        assert row == (True, 3_000_000)


@pytest.mark.parametrize("schedule", [{"crontab": "* * * * *"}, {"every": 30}], ids=str)
def test_a_name_that_code_declares_elsewhere_is_asked_for_seldom(
    dsn: str, schedule: dict[str, object]
) -> None:
    """Its row never moves under the version that is known here."""
    clock = ManualClock()
    store(dsn, "sweep", schedule, clock=clock)
    with follower(dsn, clock) as (pecker, _):
        pecker.pass_time(130)
        sent = len(pecker.publisher.sent)
        with psycopg.connect(dsn) as connection:
            connection.execute("update pecker_tasks set version = null")
        claims = []
        repository = pecker.repository
        claim = repository.claim

        def counted(*args: Any, **options: Any) -> Any:
            claims.append(args)
            return claim(*args, **options)

        repository.claim = counted  # type: ignore[method-assign]
        pecker.pass_time(200)
        claims.clear()
        for _ in range(1_000):
            clock.advance_us(100_000)
            pecker.turn()
        assert len(claims) < 150
        assert len(pecker.publisher.sent) == sent
        with psycopg.connect(dsn) as connection:
            connection.execute("update pecker_tasks set version = 1")
        pecker.pass_time(10)
        assert len(pecker.publisher.sent) == sent + 1


def test_code_that_was_away_takes_its_name_over_once_more(
    dsn: str, start: Starter
) -> None:
    """Given back while its replica was frozen: the next look at the rows tells."""
    clock = ManualClock()
    pecker = start({"sweep": 10.0}, clock)
    pecker.pass_time(12)
    store(dsn, "sweep", {"every": 10}, clock=clock)
    pecker.pass_time(20)
    assert due(pecker) == [after(10), after(22), after(32)]


def test_a_stored_schedule_that_stands_is_never_forgotten(
    dsn: str, start: Starter
) -> None:
    """Nobody lived for two days, and before that the name was code's."""
    clock = ManualClock()
    store(dsn, "sweep", {"every": HOUR}, clock=clock)
    start({"sweep": HOUR}, clock)
    clock.advance_us(int(2 * DAY) * 1_000_000)
    start({"other": HOUR}, clock).pass_time(TERM + 10)
    assert names(dsn) == {"sweep", "other"}
    with follower(dsn, clock, pace=SLOW) as (pecker, _):
        pecker.pass_time(TERM + 2 * HOUR)
        assert len(due(pecker)) == 1


def test_a_removed_schedule_is_forgotten_a_day_later(dsn: str) -> None:
    """With its history of changes; one that stands keeps its own."""
    clock = ManualClock()
    for name in ("goes", "stays"):
        store(dsn, name, {"every": DAY}, clock=clock)
    store(dsn, "goes", {"every": DAY}, clock=clock, removed=True)
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "insert into pecker_schedule_changes"
            " (name, version, change, changed_at, changed_by)"
            " select name, 1, 'created', created_at, 'test' from pecker_schedules"
        )
    with follower(dsn, clock, pace=SLOW) as (pecker, _):
        pecker.pass_time(DAY - HOUR)
        assert names(dsn) == {"goes", "stays"}
        pecker.pass_time(3 * HOUR)
    assert names(dsn) == {"stays"}
    with psycopg.connect(dsn) as connection:
        found = connection.execute(
            "select name from pecker_schedules"
            " union all select name from pecker_schedule_changes"
        ).fetchall()
    assert found == [("stays",)] * 2


def test_a_slot_of_a_removed_schedule_is_not_sent_again(dsn: str) -> None:
    """Its claimer died; nobody who knows of the removal, or does not yet, sends it."""
    clock = ManualClock()
    store(dsn, "sweep", {"every": 10}, clock=clock)
    with follower(dsn, clock) as (pecker, _):
        pecker.pass_time(12)  # its message is built from here on
        with psycopg.connect(dsn) as connection:
            connection.execute(
                "insert into pecker_pending values"
                " ('sweep', %s, 0, 1, gen_random_uuid(), %s)",
                [clock.now(), clock.now()],
            )
        store(dsn, "sweep", {"every": 10}, clock=clock, removed=True)
        following_of(pecker).next = float("inf")  # its look comes late
        pecker.pass_time(60)
        assert due(pecker) == [after(10)]


def seconds(slot: str) -> float:
    """Return how long after the start a slot is."""
    return (type(START).fromisoformat(slot) - START).total_seconds()
