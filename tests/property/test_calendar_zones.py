"""The rule for clocks that change, against an oracle that reads each minute.

`make test` takes the odd zones and forty years of others, always the same ones;
`make soak` takes every zone of the tz database and every change from 2000 to 2037.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest

from celery_pecker.calendars import CalendarSchedule, cron, recurrence, rrule
from tests.oracle.zones import AROUND, HOUR, MINUTE, Matches, changes, expected, minutes

FIRST, LAST = 2000, 2037
ODD = {
    "Africa/Casablanca": 2026,  # an hour less for a month, each year another
    "America/Caracas": 2016,  # half an hour forward
    "America/Sao_Paulo": 2017,  # at midnight
    "America/St_Johns": 2009,  # a minute past midnight
    "America/Nuuk": 2023,
    "Antarctica/Casey": 2010,  # three hours
    "Antarctica/Troll": 2026,  # two hours
    "Asia/Pyongyang": 2018,
    "Atlantic/Azores": 2026,
    "Australia/Lord_Howe": 2026,  # half an hour
    "Europe/Dublin": 2026,
    "Europe/Paris": 2026,
    "Pacific/Apia": 2011,  # a whole day is left out
}
"""A year of each in which its clocks change."""
Case = tuple[CalendarSchedule, Matches, bool]


def cases(zone: str, change: datetime) -> Iterator[Case]:
    """Give rules that come close to a change: schedule, the same by hand, hourly."""
    key = ZoneInfo(zone)
    for moment in (change - MINUTE, change):
        local = moment.astimezone(key)
        for by in (0, 30):
            hour, minute = local.hour, (local.minute + by) % 60
            yield (
                cron(f"{minute} {hour} * * *", zone=zone),
                lambda one, h=hour, m=minute: (one.hour, one.minute) == (h, m),  # type: ignore[misc]
                False,
            )
    yield cron("*/15 * * * *", zone=zone), lambda one: one.minute % 15 == 0, True
    yield (
        cron("5 */2 * * *", zone=zone),
        lambda one: one.minute == 5 and one.hour % 2 == 0,
        False,
    )
    yield (
        cron("10,50 0-3,23 * * *", zone=zone),
        lambda one: one.minute in {10, 50} and one.hour in {0, 1, 2, 3, 23},
        False,
    )
    local = change.astimezone(key)
    start = datetime(1999, 1, 1, local.hour, 20)  # noqa: DTZ001  # local time
    yield (
        recurrence(start=start, level="day", every=2, zone=zone),
        lambda one: (
            (one.hour, one.minute) == (local.hour, 20)
            and (one.date() - start.date()).days % 2 == 0
        ),
        False,
    )
    yield (
        rrule("FREQ=HOURLY", start=start, zone=zone),
        lambda one: one.minute == 20,
        True,
    )


def check(zone: str, change: datetime) -> int:
    """Compare each case around a change; return how many instants there were."""
    around, count = minutes(ZoneInfo(zone), change), 0
    for schedule, matches, hourly in cases(zone, change):
        wanted = expected(around, matches, hourly=hourly)
        found, instant = [], change - AROUND - timedelta(microseconds=1)
        while (after := schedule.instant_after(instant)) is not None:
            if after >= change + AROUND:
                break
            assert after > instant
            found.append(after)
            instant = after
        assert found == wanted, f"{schedule} around {change} in {zone}"
        count += len(found)
    return count


def steady(zone: str, change: datetime) -> None:
    """Check that hours of a recurrence are real hours."""
    every = recurrence(start=datetime(1999, 1, 1, tzinfo=UTC), level="hour", zone=zone)
    instant, seen = change - 3 * HOUR, []
    for _ in range(7):
        after = every.instant_after(instant)
        assert after is not None
        seen.append(after - instant)
        instant = after
    assert set(seen[1:]) == {HOUR}


@pytest.mark.parametrize("zone", [*ODD])
def test_the_odd_zones_keep_the_rule(zone: str) -> None:
    """Half hours, two hours, midnight, a whole day, clocks that go back in spring."""
    found = changes(ZoneInfo(zone), ODD[zone], ODD[zone])
    assert found
    for change in found:
        assert check(zone, change)


def test_changes_of_any_zone_keep_the_rule() -> None:
    """In forty years of zones, drawn with a seed that stays."""
    drawn, zones = random.Random(2037), sorted(available_timezones())
    for _ in range(40):
        zone, year = drawn.choice(zones), drawn.randint(FIRST, LAST)
        for change in changes(ZoneInfo(zone), year, year):
            check(zone, change)
            steady(zone, change)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_each_change_of_each_zone_keeps_the_rule() -> None:
    """Zones that share all their changes are looked at once."""
    seen = set()
    for zone in sorted(available_timezones()):
        key = ZoneInfo(zone)
        found = changes(key, FIRST, LAST)
        offsets = tuple(
            (change, change.astimezone(key).utcoffset()) for change in found
        )
        if offsets in seen:
            continue
        seen.add(offsets)
        for change in found:
            check(zone, change)
            steady(zone, change)
    assert len(seen) > 100
