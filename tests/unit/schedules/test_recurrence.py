"""Schedules that are no plain grid: users' own classes, failures, the host's clock."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery import Celery
from celery.schedules import crontab, schedule, solar

from celery_pecker.kernel.clock import from_us, to_us
from celery_pecker.schedules.recurrence import LEAST, MOST, RETRY, period_us, recurrence

SECOND = 1_000_000
NOW = datetime(2026, 5, 4, 12, 34, 56, 789_012, tzinfo=UTC)
NOW_US = to_us(NOW)


@pytest.fixture
def app() -> Celery:
    """Give an app."""
    return Celery("test", set_as_current=False)


def wait(given: Any, app: Celery, last: datetime = NOW) -> float:
    """Return the seconds from now until the schedule says it is due, or to be asked."""
    return (recurrence(given, app, "test").next(to_us(last), NOW_US) - NOW_US) / SECOND


class Fourth(schedule):
    """Due whenever a fourth call comes."""

    calls = 0

    def is_due(self, last_run_at: datetime) -> Any:
        """Count."""
        type(self).calls += 1
        return self.calls % 4 == 0, 7.5


class Sometimes(schedule):
    """Answers what it is told."""

    def __init__(self, answer: Any) -> None:
        super().__init__(timedelta(days=1))
        self.answer = answer

    def is_due(self, last_run_at: datetime) -> Any:
        """Answer, or fail."""
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Doubling(schedule):
    """Has instants of its own: a second class of subclass, with its own estimate."""

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        """Twice the interval after the last run."""
        assert self.run_every is not None  # type: ignore[attr-defined]
        due = last_run_at + 2 * self.run_every  # type: ignore[attr-defined]
        return due - self.now()  # type: ignore[no-any-return]


class InZone(crontab):
    """A crontab with an argument of its own, as people write them."""

    def __init__(self, zone: tzinfo, hour: int) -> None:
        super().__init__(minute=0, hour=hour)
        vars(self)["tz"] = zone  # as Celery caches its own


class OwnNow(crontab):
    """A crontab that asks the host what time it is."""

    def now(self) -> datetime:
        """Return a year that is not this one."""
        return datetime(1999, 1, 1, tzinfo=UTC)


def test_only_a_plain_interval_is_a_grid() -> None:
    """Everything else is asked; a subclass may mean anything."""
    assert period_us(schedule(timedelta(milliseconds=1500))) == 1_500_000
    assert period_us(schedule(timedelta(seconds=5), relative=True)) is None
    assert period_us(Fourth(timedelta(seconds=5))) is None
    assert period_us(crontab()) is None


def test_a_class_with_its_own_is_due_is_asked_and_believed(app: Celery) -> None:
    """It is due now, or asked again when it says."""
    fourth = recurrence(Fourth(timedelta(seconds=1)), app, "test")
    assert fourth.is_polled
    answers = [fourth.next(to_us(NOW) - SECOND, NOW_US) - NOW_US for _ in range(4)]
    assert answers == [7_500_000, 7_500_000, 7_500_000, 0]


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        ((False, None), MOST),
        ((False, float("inf")), MOST),
        ((False, 1e9), MOST),
        ((False, 0), LEAST),
        ((False, -20), LEAST),
        ((False, 12.25), 12.25),
        ((True, None), 0),
        ((False, float("nan")), RETRY),
        ((False, "soon"), RETRY),
        ("nonsense", RETRY),
        (None, RETRY),
        (ZeroDivisionError("in its arithmetic"), RETRY),
    ],
)
def test_whatever_is_due_answers_the_wait_is_bounded(
    app: Celery, answer: Any, seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    """No answer stops the loop, makes it spin, or puts the entry to sleep for good."""
    with caplog.at_level(logging.ERROR):
        assert wait(Sometimes(answer), app, NOW - timedelta(hours=1)) == seconds
    failed = seconds == RETRY
    assert ("'test' failed" in caplog.text) == failed


def test_what_is_due_now_lies_after_the_last_slot(app: Celery) -> None:
    """Always due: a new slot each time, also within one microsecond."""
    always = recurrence(Sometimes((True, 1)), app, "test")
    assert always.next(NOW_US, NOW_US) == NOW_US + 1
    assert always.next(NOW_US + 7, NOW_US) == NOW_US + 8


def test_a_class_with_its_own_estimate_has_instants(app: Celery) -> None:
    """The next follows from the last, whatever now is."""
    doubling = recurrence(Doubling(timedelta(seconds=30)), app, "test")
    assert not doubling.is_polled
    for now_us in (0, NOW_US, 2 * NOW_US):
        assert doubling.next(NOW_US, now_us) == NOW_US + 60 * SECOND


@pytest.mark.parametrize(
    "estimate", [timedelta(0), timedelta(days=-1), timedelta.max, None, 5]
)
def test_an_estimate_that_gives_no_later_instant_is_asked_again_in_a_minute(
    app: Celery, estimate: Any
) -> None:
    """It neither fires at once for ever nor never again."""

    class Odd(schedule):
        def remaining_estimate(self, last_run_at: datetime) -> Any:
            return estimate

    odd = recurrence(Odd(timedelta(seconds=5)), app, "test")
    if estimate is timedelta.max:  # in 2.7 million years, as it said
        assert odd.next(NOW_US, NOW_US) > NOW_US
    else:
        assert odd.next(NOW_US - 99, NOW_US) == NOW_US + int(RETRY * SECOND)


def test_a_subclass_with_arguments_of_its_own_keeps_them(app: Celery) -> None:
    """The copy that is pinned is made without the class's help (crontab.__reduce__)."""
    tokyo: Any = InZone(ZoneInfo("Asia/Tokyo"), hour=9)
    found = from_us(recurrence(tokyo, app, "test").next(NOW_US, NOW_US))
    assert found == datetime(2026, 5, 5, 0, 0, tzinfo=UTC)
    assert tokyo.nowfun is None, "the user's own object was changed"


@pytest.mark.parametrize(
    "given",
    [
        crontab(minute="*/7"),
        OwnNow(minute="*/7"),
        crontab(minute="*/7", nowfun=lambda: datetime(1999, 1, 1, tzinfo=UTC)),
        schedule(timedelta(hours=1), relative=True),
        solar("sunset", 48.8, 2.3),
    ],
)
def test_the_clock_of_the_host_has_no_say(
    app: Celery, given: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither `app.now`, nor `nowfun`, nor an overridden `now` moves an instant."""
    plain = OwnNow.__mro__[1](minute="*/7") if isinstance(given, crontab) else given
    expected = recurrence(plain, app, "test").next(NOW_US, NOW_US)
    monkeypatch.setattr(app, "now", lambda: datetime(2099, 1, 1, tzinfo=UTC))
    given.app = app
    assert recurrence(given, app, "test").next(NOW_US, NOW_US) == expected
    assert expected > NOW_US


def test_an_is_due_that_asks_for_now_gets_the_database_s(app: Celery) -> None:
    """`now()`, `nowfun()` and the last run are told in the app's time zone."""
    app.conf.update(timezone="Asia/Tokyo")
    seen: list[datetime] = []

    class Curious(schedule):
        def is_due(self, last_run_at: datetime) -> Any:
            nowfun = vars(self)["nowfun"]
            seen.extend((self.now(), nowfun(), last_run_at))
            return False, 1

    last = NOW - timedelta(minutes=5)
    wait(Curious(timedelta(1)), app, last)
    assert seen == [NOW, NOW, last]
    assert {one.utcoffset() for one in seen} == {timedelta(hours=9)}


def test_without_utc_crontabs_count_in_the_zone_of_the_app() -> None:
    """`enable_utc = False` with a time zone is still that zone."""
    app = Celery("test", set_as_current=False)
    app.conf.update(enable_utc=False, timezone="America/New_York")
    found = recurrence(crontab(minute=0, hour=9), app, "test").next(NOW_US, NOW_US)
    assert from_us(found) == datetime(2026, 5, 4, 13, tzinfo=UTC)


def test_the_last_answer_is_remembered_and_no_other(app: Celery) -> None:
    """The deadline of a slot asks what its next wake-up has just asked."""
    minutely = recurrence(crontab(), app, "test")
    first = minutely.next(NOW_US, NOW_US)
    assert minutely.next(NOW_US, NOW_US) == first
    second = minutely.next(first, NOW_US)
    assert second == first + 60 * SECOND
    assert minutely.next(NOW_US, NOW_US) == first


@pytest.mark.parametrize(
    ("zone", "second_pass", "following"),
    [
        ("Europe/Berlin", "2026-10-25T01:30:00", "2026-10-25T02:00:00"),
        ("Antarctica/Troll", "2026-10-25T01:30:00", "2026-10-25T03:00:00"),
    ],
)
def test_a_crontab_goes_on_after_the_hours_that_come_twice(
    app: Celery, zone: str, second_pass: str, following: str
) -> None:
    """Whatever the clocks go back by: two hours in Antarctica, and 120 instants."""
    app.conf.update(timezone=zone)
    last_us = to_us(datetime.fromisoformat(second_pass).replace(tzinfo=UTC))
    found = recurrence(crontab(), app, "test").next(last_us, last_us)
    assert from_us(found) == datetime.fromisoformat(following).replace(tzinfo=UTC)


def test_a_schedule_that_stands_still_is_in_the_log(
    app: Celery, caplog: pytest.LogCaptureFixture
) -> None:
    """It is asked again in a minute; nobody would know why it does not run."""

    class Still(crontab):
        def remaining_estimate(self, *_: Any) -> timedelta:
            return timedelta(0)

    with caplog.at_level(logging.WARNING):
        wait = recurrence(Still(), app, "test").next(NOW_US, NOW_US) - NOW_US
    assert wait == RETRY * SECOND
    assert "gave no instant after" in caplog.text
