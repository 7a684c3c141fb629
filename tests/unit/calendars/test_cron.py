"""Cron with seconds: what it accepts, when it comes, what it refuses."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_pecker.calendars import CalendarSchedule, cron
from celery_pecker.kernel.errors import Misconfigured


def instants(schedule: CalendarSchedule, since: str, count: int) -> list[str]:
    """Return the next instants in the schedule's own zone, as texts."""
    found: list[str] = []
    instant = datetime.fromisoformat(since)
    for _ in range(count):
        after = schedule.instant_after(instant)
        if after is None:
            return [*found, "never"]
        found.append(f"{after.astimezone(schedule.zone):%Y-%m-%d %H:%M:%S%z}")
        instant = after
    return found


def test_seconds_come_first_in_six_fields() -> None:
    """And are zero in five."""
    ten = cron("*/10 * * * * *", zone="UTC")
    assert instants(ten, "2026-05-04T12:34:56.5Z", 3) == [
        "2026-05-04 12:35:00+0000",
        "2026-05-04 12:35:10+0000",
        "2026-05-04 12:35:20+0000",
    ]
    assert instants(cron("5 * * * *", zone="UTC"), "2026-05-04T12:05Z", 1) == [
        "2026-05-04 13:05:00+0000"
    ]


def test_each_entry_has_its_own_zone() -> None:
    """Nine in Tokyo is midnight in UTC."""
    tokyo = cron("0 9 * * *", zone="Asia/Tokyo")
    assert tokyo.instant_after(datetime(2026, 5, 4, tzinfo=UTC)) == datetime(
        2026, 5, 5, tzinfo=UTC
    )


@pytest.mark.parametrize(
    ("expression", "since", "first"),
    [
        ("0 0 * * mon", "2026-05-05", "2026-05-11"),
        ("0 0 * * 7", "2026-05-05", "2026-05-10"),
        ("0 0 * * fri-mon", "2026-05-05", "2026-05-08"),
        ("0 0 31 * *", "2026-06-01", "2026-07-31"),
        ("0 0 29 feb *", "2026-06-01", "2028-02-29"),
        ("0 0 1 jan-mar/2 *", "2026-01-02", "2026-03-01"),
        ("@monthly", "2026-05-05", "2026-06-01"),
        ("0 0 29 2 *", "2096-03-01", "2104-02-29"),
    ],
)
def test_days_and_months_have_names_ranges_and_steps(
    expression: str, since: str, first: str
) -> None:
    """As in Unix; a month without the day has none."""
    found = instants(cron(expression, zone="UTC"), f"{since}T00:00Z", 1)
    assert found == [f"{first} 00:00:00+0000"]


def test_both_kinds_of_days_need_a_word_for_what_is_meant() -> None:
    """Unix takes either, Celery's crontab both: no guess is right for all."""
    with pytest.raises(Misconfigured, match=r"'either'.*'both'"):
        cron("0 0 13 * 5")
    both = cron("0 0 13 * 5", days="both", zone="UTC")
    assert instants(both, "2026-01-01T00:00Z", 2) == [
        "2026-02-13 00:00:00+0000",
        "2026-03-13 00:00:00+0000",
    ]
    either = cron("0 0 13 * 5", days="either", zone="UTC")
    assert instants(either, "2026-01-10T00:00Z", 2) == [
        "2026-01-13 00:00:00+0000",
        "2026-01-16 00:00:00+0000",
    ]


def test_nothing_comes_before_the_start_or_after_the_end() -> None:
    """Both are included; local times of the zone without an offset."""
    daily = cron(
        "0 9 * * *", zone="Asia/Tokyo", start="2026-05-04 09:00", end="2026-05-05 09:00"
    )
    assert instants(daily, "2020-01-01T00:00Z", 5) == [
        "2026-05-04 09:00:00+0900",
        "2026-05-05 09:00:00+0900",
        "never",
    ]


@pytest.mark.parametrize(
    ("expression", "options", "message"),
    [
        ("0 0 30 2 *", {}, "one that comes at all"),
        ("0 0 31 4,6,9,11 *", {}, "one that comes at all"),
        ("* * * *", {}, "five fields"),
        (5, {}, "a text of five or six fields"),
        ("60 * * * *", {}, "the minute is '60'; allowed is 0 to 59"),
        ("*/0 * * * *", {}, r"the minute is '\*/0'"),
        ("5/10 * * * *", {}, "the minute is '5/10'"),
        ("1,, * * * *", {}, "the minute is '1,,'"),
        ("² * * * *", {}, "the minute is '²'"),
        ("0 0 * * 8", {}, "the day of the week is '8'; allowed is 0 to 7, sun to sat"),
        ("0 0 * foo *", {}, "the month is 'foo'"),
        ("0 0 * * *", {"zone": "Europe/Pari"}, "zone is 'Europe/Pari'; allowed is a"),
        ("0 0 * * *", {"zone": "../../etc/passwd"}, "zone is"),
        ("0 0 * * *", {"zone": ""}, "zone is ''"),
        ("0 0 * * *", {"start": "soon"}, "start is 'soon'; allowed is a datetime"),
        ("0 0 * * *", {"start": 5}, "start is 5"),
        (
            "0 0 * * *",
            {"start": "2026-05-05", "end": "2026-05-04"},
            "allowed is an instant after the start",
        ),
        (
            "0 0 1 1 *",
            {"start": "2026-05-05", "end": "2026-06-04"},
            "one that comes at all",
        ),
        ("0 0 1 * 1", {"days": "one"}, "days is 'one'"),
        ("0 0 * * *", {"calendar": "XX"}, "calendar is 'XX'; allowed is a country"),
        ("0 0 * * *", {"calendar": 7}, "calendar is 7; allowed is a country"),
        ("0 0 25 12 *", {"calendar": "DE"}, "one that comes at all"),
    ],
)
def test_what_is_wrong_is_refused_with_what_is_allowed(
    expression: Any, options: Any, message: str
) -> None:
    """Where the entry is declared, not at midnight."""
    with pytest.raises(Misconfigured, match=message):
        cron(expression, **options)


def test_a_calendar_leaves_working_days_only() -> None:
    """Of Germany: Good Friday, Easter Monday and the weekend between are left out."""
    daily = cron("0 9 * * *", zone="Europe/Berlin", calendar="DE")
    assert [one[:10] for one in instants(daily, "2026-04-02T12:00Z", 2)] == [
        "2026-04-07",
        "2026-04-08",
    ]


@pytest.mark.parametrize(
    ("expression", "spring", "autumn"),
    [
        ("30 2 * * *", "03:30+2", "02:30+2"),
        ("0 * * * *", "01:00+1 03:00+2", "01:00+2 02:00+2 02:00+1 03:00+1"),
        ("0 */2 * * *", "00:00+1 03:00+2 04:00+2", "00:00+2 02:00+2 04:00+1"),
        (
            "*/30 1-3 * * *",
            "01:00+1 01:30+1 03:00+2 03:30+2",
            "01:00+2 01:30+2 02:00+2 02:30+2 03:00+1 03:30+1",
        ),
        ("59 59 2 * * *", "03:59:59+2", "02:59:59+2"),
    ],
)
def test_nights_in_which_clocks_change(
    expression: str, spring: str, autumn: str
) -> None:
    """The table of docs/how-to/calendars.md."""
    schedule = cron(expression, zone="Europe/Paris")
    for day, hours in (("2026-03-29", spring), ("2026-10-25", autumn)):
        wanted = [
            datetime.fromisoformat(f"{day} {one[:-1]}0{one[-1]}00")
            for one in hours.split()
        ]
        found, instant = [], wanted[0] - timedelta(seconds=1)
        for _ in wanted:
            after = schedule.instant_after(instant)
            assert after is not None
            found.append(after)
            instant = after
        assert found == wanted


def test_it_is_pickled_compared_and_printed_by_what_it_was_made_of() -> None:
    """Celery's beat keeps schedules on disk, and compares them at each start."""
    one = cron("0 9 * * *", zone="Asia/Tokyo", start="2026-05-04")
    twin = pickle.loads(pickle.dumps(one))  # noqa: S301  # our own
    assert one == twin
    assert hash(one) == hash(twin)
    assert one != cron("0 9 * * *", zone="Asia/Tokyo")
    assert one != "0 9 * * *"
    assert repr(one) == "cron('0 9 * * *', zone='Asia/Tokyo', start='2026-05-04')"


@given(
    st.lists(st.sampled_from(["*", "*/7", "3", "5-9", "1,8"]), min_size=3, max_size=3),
    st.datetimes(datetime(2000, 1, 1), datetime(2037, 1, 1)),  # noqa: DTZ001
)
def test_the_next_one_is_the_first_that_matches(parts: list[str], at: datetime) -> None:
    """Second by second, for an hour."""
    schedule = cron(" ".join([*parts, "* * *"]), zone="UTC")

    def named(part: str, full: int) -> set[int]:
        some = {"*": range(full), "*/7": range(0, full, 7), "3": [3]}
        return {*some.get(part, {"5-9": range(5, 10), "1,8": [1, 8]}.get(part, []))}

    fields = [named(one, full) for one, full in zip(parts, (60, 60, 24), strict=True)]
    since = at.replace(tzinfo=UTC)
    found = schedule.instant_after(since)
    assert found is not None
    instant = since.replace(microsecond=0)
    while (instant := instant + timedelta(seconds=1)) <= since + timedelta(hours=1):
        time = (instant.second, instant.minute, instant.hour)
        if all(n in numbers for n, numbers in zip(time, fields, strict=True)):
            assert found == instant
            return
    assert found >= instant
