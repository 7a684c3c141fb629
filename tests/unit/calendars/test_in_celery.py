"""Calendars as Celery's schedules: in its beat, and as entries of our scheduler."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.beat import PersistentScheduler
from celery.schedules import crontab, schedule, solar

from celery_pecker.calendars import (
    CalendarSchedule,
    cron,
    in_words,
    jitter,
    recurrence,
    rrule,
    splay,
)
from celery_pecker.kernel.clock import from_us, to_us
from celery_pecker.schedules.declarations.reading import entries
from celery_pecker.schedules.engine.model import NEVER_US, Delivery, Entry
from celery_pecker.schedules.recurrence import RETRY, Computed

NOW = datetime(2026, 5, 4, 12, 34, 56, 789_012, tzinfo=UTC)
NOW_US = to_us(NOW)
SCHEDULES: dict[str, CalendarSchedule] = {
    "cron": cron("30 9 * * *", zone="Asia/Tokyo"),
    "app's zone": cron("30 9 * * *"),
    "seconds": cron("*/10 * * * * *"),
    "workdays": recurrence(start="2026-01-05 09:00", level="workday", calendar="DE"),
    "rule": rrule("FREQ=MONTHLY;BYDAY=-1FR", start="2026-01-05 09:00"),
    "splay": splay(60),
    "jitter": jitter(cron("0 * * * *"), most=600),
}


@pytest.fixture
def app() -> Celery:
    """Give an app in a zone of its own."""
    app = Celery("test", set_as_current=False)
    app.conf.update(timezone="America/New_York")
    return app


def read(app: Celery, **schedules: Any) -> dict[str, Entry]:
    """Return entries as our scheduler has them."""
    app.conf.beat_schedule = {
        name: {"task": "work", "schedule": one} for name, one in schedules.items()
    }
    scheduler: Any = PersistentScheduler(app, schedule_filename="", lazy=True)
    declared = {
        name: scheduler.Entry(name=name, app=app, **entry)
        for name, entry in app.conf.beat_schedule.items()
    }
    return {one.name: one for one in entries(declared, app, conf=app.conf)}


def test_in_celerys_beat_each_is_due_at_its_instants(app: Celery) -> None:
    """Asked in time: due once at each, and told how long it is to the next."""
    for name, given in SCHEDULES.items():
        one: Any = given.bound(app, name)
        now = last = NOW
        one.nowfun = lambda now=now: now
        expected = one.instant_after(NOW)
        assert expected is not None
        due, wait = one.is_due(last)
        assert not due
        assert wait == (expected - NOW).total_seconds()
        assert one.remaining_estimate(last) == expected - NOW
        one.nowfun = lambda expected=expected: expected
        due, wait = one.is_due(last)
        following = one.instant_after(expected)
        assert due
        assert following is not None
        assert wait == (following - expected).total_seconds()
        assert not one.is_due(expected)[0]


def test_celerys_beat_keeps_them_on_disk(app: Celery, tmp_path: Path) -> None:
    """The last runs outlive a restart: the schedules are equal to those stored."""
    app.conf.beat_schedule = {
        name: {"task": "work", "schedule": one} for name, one in SCHEDULES.items()
    }
    file = str(tmp_path / "beat")
    for count in (1, 2):
        scheduler = PersistentScheduler(app, schedule_filename=file)
        found = scheduler.schedule
        assert {name: found[name].schedule for name in SCHEDULES} == SCHEDULES
        for entry in (found[name] for name in SCHEDULES):
            assert entry.total_run_count == (count - 1) * 5
            entry.total_run_count += 5
        scheduler.sync()
        scheduler.close()


def test_in_our_scheduler_they_have_instants_whatever_now_is(app: Celery) -> None:
    """The next follows from the last, and a zone of its own goes before the app's."""
    found = read(app, **SCHEDULES)
    for entry in found.values():
        assert entry.period_us is None
        assert entry.recurrence is not None
        assert not entry.recurrence.is_polled
        for now_us in (0, NOW_US, 2 * NOW_US):
            assert NOW_US < entry.recurrence.next(NOW_US, now_us) < NEVER_US
        assert entry.described == repr(SCHEDULES[entry.name])
    tokyo, new_york = (
        found[name].recurrence.next(NOW_US, NOW_US)  # type: ignore[union-attr]
        for name in ("cron", "app's zone")
    )
    assert from_us(tokyo) == datetime(2026, 5, 5, 0, 30, tzinfo=UTC)
    assert from_us(new_york) == datetime(2026, 5, 4, 13, 30, tzinfo=UTC)


def test_what_comes_more_than_once_a_minute_is_sent_at_most_once(app: Celery) -> None:
    """As with plain intervals; a policy says otherwise."""
    kinds = {name: one.policy.delivery for name, one in read(app, **SCHEDULES).items()}
    seldom = {*SCHEDULES} - {"seconds"}
    assert {name for name in kinds if kinds[name] is Delivery.AT_LEAST_ONCE} == seldom


def test_after_its_end_a_schedule_has_no_slot(app: Celery) -> None:
    """Neither in our scheduler, which says "never", nor in Celery's beat."""
    ended = cron("0 9 * * *", zone="UTC", end="2026-05-04 09:00")
    assert read(app, ended=ended)["ended"].recurrence.next(NOW_US, 0) == NEVER_US  # type: ignore[union-attr]
    mine: Any = ended.bound(app, "ended")
    mine.nowfun = lambda: NOW
    assert not mine.is_due(NOW).is_due
    assert mine.remaining_estimate(NOW) == timedelta.max


class Breaking:
    """A calendar that fails in the year 2027."""

    def is_working_day(self, day: date) -> bool:
        """Fail."""
        if day.year == 2027:
            message = "not yet published"
            raise LookupError(message)
        return True


def test_a_calendar_that_fails_is_in_the_log_and_asked_again(
    app: Celery, caplog: pytest.LogCaptureFixture
) -> None:
    """It stops neither the loop nor the entries beside it."""
    given = cron("0 9 * * *", zone="UTC", calendar=Breaking())
    last_us = to_us(datetime(2026, 12, 31, 9, tzinfo=UTC))
    found = Computed(given, app, "test").next(last_us, last_us)
    assert found == last_us + RETRY * 1_000_000
    assert "of entry 'test' failed" in caplog.text


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (schedule(1), "every second"),
        (schedule(90), "every 90 seconds"),
        (schedule(7200, relative=True), "every 2 hours, on whole ones"),
        (crontab(), "every minute"),
        (
            crontab(minute="*/5", hour="8-17", day_of_week="mon-fri"),
            "every 5 minutes, at hours 8 to 17, on Monday to Friday",
        ),
        (crontab(minute=30, hour="9,17"), "at 09:30 and 17:30"),
        (solar("sunset", 48.8, 2.3), "at sunset at latitude 48.8, longitude 2.3"),
        (cron("*/10 * * * * *"), "every 10 seconds"),
        (cron("* * * * * *"), "every second"),
        (cron("0 * * * *"), "at minute 0, every hour"),
        (
            cron("0 9 1,15 * 1", days="either", zone="Asia/Tokyo"),
            "at 09:00, on days 1 and 15 of the month or on Monday, time of Asia/Tokyo",
        ),
        (
            cron("0 9 13 jan 5", days="both"),
            "at 09:00, on day 13 of the month if it is Friday, in January",
        ),
        (
            cron("0 9 * * *", calendar="DE", start="2026-01-01"),
            "at 09:00, on working days only (DE), from 2026-01-01 00:00:00",
        ),
        (
            recurrence(
                start="2022-03-23 18:00",
                zone="Asia/Shanghai",
                level="month",
                every=2,
                days=[3, 5, 23],
            ),
            (
                "every 2 months on days 3, 5 and 23 at 18:00, time of Asia/Shanghai,"
                " from 2022-03-23 18:00:00"
            ),
        ),
        (
            recurrence(start="2026-05-04", level="workday", every=2),
            (
                "every 2 working days at 00:00 (Monday to Friday),"
                " from 2026-05-04 00:00:00"
            ),
        ),
        (
            recurrence(start="2026-05-04", level="week", days=["mon", "sun"]),
            "every week on Monday and Sunday at 00:00, from 2026-05-04 00:00:00",
        ),
        (
            recurrence(start="2026-05-04", level="month", days=[1, -1]),
            "every month on day 1 and the last day at 00:00, from 2026-05-04 00:00:00",
        ),
        (
            rrule("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO", start="2026-05-04"),
            "every 2 weeks by BYDAY MO, from 2026-05-04 00:00:00",
        ),
    ],
)
def test_each_schedule_says_in_words_when_it_comes(given: Any, expected: str) -> None:
    """Celery's own too."""
    assert in_words(given) == expected
