"""Recurrence by levels: the published example, working days, days not there."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_pecker.calendars import CalendarSchedule, recurrence
from celery_pecker.kernel.errors import Misconfigured

EARLY = datetime(1990, 1, 1, tzinfo=UTC)


def instants(
    schedule: CalendarSchedule, count: int, since: datetime = EARLY
) -> list[datetime]:
    """Return the next instants, as local times of the schedule's zone."""
    found, instant = [], since
    for _ in range(count):
        after = schedule.instant_after(instant)
        if after is None:
            break
        found.append(after.astimezone(schedule.zone).replace(tzinfo=None))
        instant = after
    return found


def days(schedule: CalendarSchedule, count: int) -> list[str]:
    """Return the days of the next instants."""
    return [f"{one:%Y-%m-%d}" for one in instants(schedule, count)]


def test_the_published_example_comes_out_to_the_instant() -> None:
    """Every two months on days 3, 5 and 23, from 2022-03-23 18:00 in Beijing."""
    published = recurrence(
        start="2022-03-23 18:00",
        zone="Asia/Shanghai",
        level="month",
        every=2,
        days=[3, 5, 23],
    )
    found, instant = [], EARLY
    for _ in range(4):
        after = published.instant_after(instant)
        assert after is not None
        found.append(after)
        instant = after
    assert found == [
        datetime(2022, 3, 23, 10, tzinfo=UTC),
        datetime(2022, 5, 3, 10, tzinfo=UTC),
        datetime(2022, 5, 5, 10, tzinfo=UTC),
        datetime(2022, 5, 23, 10, tzinfo=UTC),
    ]
    between = published.instant_after(datetime(2022, 4, 10, tzinfo=UTC))
    assert between == datetime(2022, 5, 3, 10, tzinfo=UTC), "April has none"


def test_swapped_working_days_of_china_count() -> None:
    """New Year of 2026: off from 15 to 23 February; the 14th, a Saturday, is worked."""
    two = recurrence(
        start="2026-02-10 09:00",
        zone="Asia/Shanghai",
        level="workday",
        every=2,
        calendar="CN",
    )
    assert days(two, 5) == [
        "2026-02-10",
        "2026-02-12",
        "2026-02-14",
        "2026-02-25",
        "2026-02-27",
    ]


def test_a_start_on_a_day_off_counts_from_the_next_working_day() -> None:
    """Nobody is disturbed on a day off, the first time neither."""
    two = recurrence(start="2026-05-02 09:00", level="workday", every=2, zone="UTC")
    assert days(two, 3) == ["2026-05-04", "2026-05-06", "2026-05-08"]


class MondaysOnly:
    """A calendar of somebody's own."""

    def is_working_day(self, day: date) -> bool:
        """Only Mondays."""
        return day.isoweekday() == 1


def test_a_calendar_of_ones_own_may_be_given() -> None:
    """Whatever has is_working_day."""
    third = recurrence(
        start="2026-05-04", level="workday", every=3, calendar=MondaysOnly(), zone="UTC"
    )
    assert days(third, 3) == ["2026-05-04", "2026-05-25", "2026-06-15"]
    assert "0x" not in repr(third)


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        (
            {"level": "month", "start": "2026-01-31"},
            ["2026-01-31", "2026-03-31", "2026-05-31"],
        ),
        (
            {"level": "month", "start": "2026-01-15", "days": [-1]},
            ["2026-01-31", "2026-02-28", "2026-03-31"],
        ),
        (
            {"level": "month", "start": "2026-01-30", "days": [1, 15]},
            ["2026-02-01", "2026-02-15", "2026-03-01"],
        ),
        (
            {"level": "year", "start": "2024-02-29"},
            ["2024-02-29", "2028-02-29", "2032-02-29"],
        ),
        (
            {"level": "week", "start": "2026-05-06", "every": 2, "days": ["mon", 7]},
            ["2026-05-10", "2026-05-18", "2026-05-24"],
        ),
        (
            {"level": "week", "start": "2026-05-06"},
            ["2026-05-06", "2026-05-13", "2026-05-20"],
        ),
        (
            {"level": "day", "start": "2026-05-06", "every": 10},
            ["2026-05-06", "2026-05-16", "2026-05-26"],
        ),
        (
            {"level": "hour", "start": "2026-05-06 12:00", "every": 36},
            ["2026-05-06", "2026-05-08", "2026-05-09"],
        ),
        (
            {"level": "day", "start": "2026-05-06", "end": "2026-05-07"},
            ["2026-05-06", "2026-05-07"],
        ),
    ],
)
def test_levels_count_from_the_start(given_: Any, expected: list[str]) -> None:
    """A day that a month has not is left out; a start that misses its days too."""
    assert days(recurrence(zone="UTC", **given_), 3) == expected


def test_hours_are_real_hours_when_clocks_change() -> None:
    """None is lost and none comes twice."""
    hours = recurrence(start="2026-10-25 00:30", level="hour", zone="Europe/Paris")
    shown = [f"{one:%H:%M}" for one in instants(hours, 5)]
    assert shown == ["00:30", "01:30", "02:30", "02:30", "03:30"]


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"start": None}, "start is None; allowed is an instant"),
        ({"level": "decade"}, "level is 'decade'; allowed is one of hour, day, week"),
        ({"every": 0}, "every is 0; allowed is a whole number from 1 to 1000"),
        ({"every": True}, "every is True"),
        ({"every": 1.5}, "every is 1.5"),
        ({"days": [1]}, "days is .1.; allowed is none but with level='week'"),
        ({"level": "month", "days": [0]}, "allowed is a list of 1 to 31"),
        ({"level": "month", "days": []}, "days is .."),
        ({"level": "week", "days": ["mo"]}, "allowed is a list of 1 .Monday. to 7"),
        (
            {"level": "month", "start": "2026-02-01", "every": 12, "days": [30]},
            "one that comes at all",
        ),
        ({"calendar": "DE"}, "calendar is 'DE'; allowed is none but with level"),
        ({"level": "workday", "calendar": "DE-ZZ"}, "calendar is 'DE-ZZ'"),
        ({"start": "2026-05-04 09:00:00.5"}, "a datetime in whole seconds"),
        ({"end": "2020-01-01"}, "an instant after the start"),
    ],
)
def test_what_is_wrong_is_refused_with_what_is_allowed(
    given_: Any, message: str
) -> None:
    """Where the entry is declared."""
    options: dict[str, Any] = {"start": "2026-05-04 09:00", "level": "day", **given_}
    with pytest.raises(Misconfigured, match=message):
        recurrence(**options)


def test_a_country_without_its_library_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rest of the package works without it."""
    monkeypatch.setitem(sys.modules, "holidays", None)
    with pytest.raises(Misconfigured, match=r"pip install .celery-pecker\[calendars"):
        recurrence(start="2026-05-04", level="workday", calendar="FR-BRE")
    plain = recurrence(start="2026-05-04", level="workday")
    assert plain.calendar is not None


def test_a_thousand_entries_of_a_country_ask_its_library_once() -> None:
    """A country takes some milliseconds; entries share what was worked out."""
    one, other = (
        recurrence(start=f"2026-05-0{day}", level="workday", calendar="AT")
        for day in (4, 5)
    )
    assert one.calendar is other.calendar


class NeverAtWork:
    """A calendar without a working day."""

    def is_working_day(self, day: date) -> bool:
        """Never."""
        return False


def test_a_calendar_without_working_days_is_refused_in_bounded_time() -> None:
    """The search ends after fifty years."""
    with pytest.raises(Misconfigured, match="one that comes at all"):
        recurrence(start="2026-05-04", level="workday", calendar=NeverAtWork())


@given(
    st.integers(1, 9),
    st.dates(date(2020, 1, 1), date(2030, 1, 1)),
    st.integers(0, 900),
)
def test_working_days_are_counted_one_by_one(
    every: int, start: date, later: int
) -> None:
    """The prefix sums of years say what counting on fingers says."""
    schedule = recurrence(
        start=start.isoformat(), level="workday", every=every, zone="UTC"
    )
    since = datetime.combine(start, datetime.min.time(), UTC) + timedelta(days=later)
    found = schedule.instant_after(since)
    assert found is not None
    worked, day = 0, start
    while True:
        if day.isoweekday() < 6:
            if worked % every == 0 and day > since.date():
                break
            worked += 1
        day += timedelta(days=1)
    assert found.date() == day
