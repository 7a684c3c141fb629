"""Rules of RFC 5545: the same as the library says, however old the start is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from dateutil.rrule import rrulestr
from hypothesis import given
from hypothesis import strategies as st

from celery_pecker.calendars import rrule
from celery_pecker.kernel.errors import Misconfigured

RULES = [
    "FREQ=YEARLY",
    "FREQ=YEARLY;INTERVAL=3;BYMONTH=3,11;BYDAY=2SU",
    "FREQ=YEARLY;BYWEEKNO=1,53;BYDAY=MO",
    "FREQ=YEARLY;BYYEARDAY=-1,100",
    "FREQ=MONTHLY;INTERVAL=5",
    "FREQ=MONTHLY;BYDAY=-1FR",
    "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
    "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=SU",
    "FREQ=DAILY;INTERVAL=10",
    "FREQ=DAILY;BYMONTH=1;BYHOUR=8,20",
    "FREQ=HOURLY;INTERVAL=7",
    "FREQ=MINUTELY;INTERVAL=1440",
    "FREQ=SECONDLY;INTERVAL=86399",
]


@given(
    st.sampled_from(RULES),
    st.datetimes(datetime(2000, 1, 1), datetime(2005, 1, 1)),  # noqa: DTZ001
    st.datetimes(datetime(1999, 1, 1), datetime(2012, 1, 1)),  # noqa: DTZ001
)
def test_it_comes_when_the_library_says(
    rule: str, start: datetime, since: datetime
) -> None:
    """Twenty in a row, from any instant on: no start in between changes the phase."""
    start, since = start.replace(microsecond=0), since.replace(microsecond=0)
    mine = rrule(rule, start=start, zone="UTC")
    whole = rrulestr(rule, dtstart=start)
    instant = since.replace(tzinfo=UTC)
    for expected in whole.xafter(since, count=20):
        found = mine.instant_after(instant)
        assert found == expected.replace(tzinfo=UTC)
        instant = found


def test_what_was_asked_before_does_not_matter() -> None:
    """Back and forth: answers are the same as of a schedule that is new."""
    rule = rrule("FREQ=WEEKLY;BYDAY=MO,FR", start="2020-01-01 08:00", zone="UTC")
    since = datetime(2026, 1, 1, tzinfo=UTC)
    for weeks in (0, 300, 5, -200, 6, 5, -2000):
        instant = since + timedelta(weeks=weeks)
        fresh = rrule("FREQ=WEEKLY;BYDAY=MO,FR", start="2020-01-01 08:00", zone="UTC")
        assert rule.instant_after(instant) == fresh.instant_after(instant)


@pytest.mark.parametrize(
    ("rule", "count"),
    [
        ("FREQ=DAILY;COUNT=3", 3),
        ("FREQ=HOURLY;COUNT=5", 5),
        ("FREQ=DAILY;UNTIL=20260105", 2),
        ("FREQ=DAILY;UNTIL=20260105T075959Z", 1),
        ("RRULE:FREQ=DAILY;UNTIL=20260105T080000", 2),
    ],
)
def test_it_ends(rule: str, count: int) -> None:
    """By COUNT or by UNTIL, which is included; a date is the whole day."""
    schedule = rrule(rule, start="2026-01-04 08:00", zone="UTC")
    instant, found = datetime(2020, 1, 1, tzinfo=UTC), 0
    while (after := schedule.instant_after(instant)) is not None:
        instant, found = after, found + 1
    assert found == count


def test_a_night_in_which_clocks_change() -> None:
    """A local time that is left out is moved on, as RFC 5545 has it."""
    daily = rrule("FREQ=DAILY", start="2026-03-01 02:30", zone="Europe/Paris")
    found = daily.instant_after(datetime(2026, 3, 28, 12, tzinfo=UTC))
    assert found == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("rule", "options", "message"),
    [
        (5, {}, "one RRULE of RFC 5545"),
        ("", {}, "one RRULE of RFC 5545"),
        ("FREQ=DAILY;BYEASTER=0", {}, "one RRULE of RFC 5545"),
        ("FREQ=DAILY;FREQ=DAILY", {}, "one RRULE of RFC 5545"),
        ("FREQ=OFTEN", {}, "FREQ is 'OFTEN'; allowed is one of SECONDLY"),
        ("BYDAY=MO", {}, "FREQ is None"),
        ("FREQ=DAILY;INTERVAL=0", {}, "INTERVAL is '0'; allowed is a whole number"),
        ("FREQ=DAILY;COUNT=1001", {}, "COUNT is '1001'"),
        ("FREQ=DAILY;UNTIL=soon", {}, "UNTIL is 'SOON'"),
        ("FREQ=DAILY;UNTIL=20270101", {"end": "2027-01-01"}, "none beside UNTIL"),
        ("FREQ=DAILY;UNTIL=20200101", {}, "an instant after the start"),
        ("FREQ=DAILY;BYDAY=XX", {}, "the rule is"),
        ("FREQ=WEEKLY;BYMONTH=2;BYMONTHDAY=30", {}, "one that comes within 400 years"),
        ("FREQ=DAILY", {"start": None}, "start is None"),
    ],
)
def test_what_is_wrong_is_refused_with_what_is_allowed(
    rule: Any, options: Any, message: str
) -> None:
    """A rule that never comes too: the search is bounded."""
    with pytest.raises(Misconfigured, match=message):
        rrule(rule, **{"start": "2026-05-04 09:00", **options})


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=MINUTELY;BYSETPOS=366;BYSECOND=1",
        "FREQ=SECONDLY;BYSETPOS=-2",
        "FREQ=HOURLY;BYSETPOS=50;BYMINUTE=1",
        "FREQ=SECONDLY;BYHOUR=4;INTERVAL=7;BYMINUTE=3;BYMONTH=2;BYMONTHDAY=29",
    ],
)
def test_a_rule_of_endless_work_is_refused(rule: str) -> None:
    """The library would try each minute of 8,000 years before it says a word."""
    with pytest.raises(Misconfigured, match="of less work"):
        rrule(rule, start="1970-01-01T00:00:00+00:00")


def test_rare_instants_are_found_one_by_one() -> None:
    """Sixteen of them together would be too many steps: those that are there count."""
    made = rrule(
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=SU", start="1970-01-01", zone=UTC
    )
    instants = [datetime(1970, 1, 1, tzinfo=UTC)]
    for _ in range(20):
        later = made.instant_after(instants[-1])
        assert later is not None
        instants.append(later)
    days = [(one.month, one.day, one.isoweekday()) for one in instants[1:]]
    assert set(days) == {(2, 29, 7)}
    assert instants[20].year > 2400
