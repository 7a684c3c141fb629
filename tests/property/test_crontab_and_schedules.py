"""Instants of crontabs, the sun and relative intervals: Celery's, by another clock.

What happens when clocks change (Europe/Paris; the same as in Celery's beat):

- the hour that is left out: what was due in it runs once, an hour later by the clock
  on the wall, at the same distance from midnight (02:30 runs at 03:30 summer time);
- the hour that comes twice: each local time runs once, the first time; a crontab of
  every minute therefore pauses for that hour.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery import Celery
from celery.schedules import crontab, schedule, solar
from hypothesis import assume, example, given
from hypothesis import strategies as st

from celery_pecker.kernel.clock import from_us, to_us
from celery_pecker.schedules.recurrence import recurrence

PARIS = ZoneInfo("Europe/Paris")
MINUTE = timedelta(minutes=1)
SPRING = datetime(2026, 3, 29, 1, tzinfo=UTC)
AUTUMN = datetime(2026, 10, 25, 1, tzinfo=UTC)


def app_in(zone: str) -> Celery:
    """Return an app whose schedules count in that zone."""
    app = Celery("test", set_as_current=False)
    app.conf.update(timezone=zone)
    return app


APPS = {
    name: app_in(name)
    for name in ("UTC", "Europe/Paris", "Asia/Kathmandu", "America/New_York")
}
zones = st.sampled_from([*APPS])
instants = st.datetimes(
    datetime(2024, 1, 1),  # noqa: DTZ001  # the strategy adds the zone
    datetime(2030, 1, 1),  # noqa: DTZ001  # as above
    timezones=st.just(UTC),
)


def field(least: int, most: int) -> st.SearchStrategy[str]:
    """Return forms of one field of a crontab."""
    number = st.integers(least, most)
    return st.one_of(
        st.just("*"),
        st.integers(2, max(2, most // 2)).map("*/{}".format),
        st.lists(number, min_size=1, max_size=4, unique=True).map(
            lambda some: ",".join(map(str, some))
        ),
        st.tuples(number, number).map(lambda ends: f"{min(ends)}-{max(ends)}"),
    )


@st.composite
def crontabs(draw: st.DrawFn) -> crontab:
    """Return a crontab that has instants."""
    try:
        return crontab(
            minute=draw(field(0, 59)),
            hour=draw(field(0, 23)),
            day_of_week=draw(st.just("*") | field(0, 6)),
            day_of_month=draw(st.just("*") | field(1, 28)),
            month_of_year=draw(st.just("*") | field(1, 12)),
        )
    except ValueError:
        assume(False)
        raise


def following(given_: Any, app: Celery) -> Callable[[datetime], datetime]:
    """Return what gives the next instant after another."""
    asked = recurrence(given_, app, "test")

    def after(last: datetime) -> datetime:
        # "Now" is years away: a schedule with instants of its own must not care.
        return from_us(asked.next(to_us(last), to_us(last) + 10**14))

    return after


def matches(cron: Any, local: datetime) -> bool:
    """Say whether a local time is one of the crontab's, by its five fields."""
    return (
        local.minute in cron.minute
        and local.hour in cron.hour
        and local.isoweekday() % 7 in cron.day_of_week
        and local.day in cron.day_of_month
        and local.month in cron.month_of_year
    )


@given(crontabs(), zones, instants)
@example(crontab(minute="30", hour="8"), "Europe/Paris", SPRING - timedelta(hours=17))
@example(crontab(minute="30", hour="8"), "Europe/Paris", AUTUMN - timedelta(hours=17))
def test_a_crontab_comes_next_where_its_fields_match_and_nowhere_before(
    cron: crontab, zone: str, last: datetime
) -> None:
    """After the last, at a matching local minute, none left out (two days by hand)."""
    app = APPS[zone]
    found = following(cron, app)(last)
    assert found > last
    local = found.astimezone(app.timezone)
    changing = offset(app, found - timedelta(hours=3)) != offset(
        app, found + timedelta(hours=3)
    )
    assert changing or matches(cron, local)
    assert (local.second, local.microsecond) == (0, 0)
    between = last.replace(second=0, microsecond=0) + MINUTE
    until = min(found, last + timedelta(days=2))
    while between < until:
        skipped = between.astimezone(app.timezone)
        if matches(cron, skipped):  # the second pass of an hour that comes twice
            assert skipped.fold == 1, f"{skipped} was left out"
        between += MINUTE


def offset(app: Celery, instant: datetime) -> timedelta | None:
    """Return the zone's distance from UTC then."""
    return instant.astimezone(app.timezone).utcoffset()


def beats(given_: Any, app: Celery, start: datetime, end: datetime) -> list[datetime]:
    """Return when Celery's beat would run it, were it always in time."""
    now = start
    fired: list[datetime] = []
    given_.app, given_.nowfun = app, lambda: now.astimezone(app.timezone)
    last = given_.now()
    while now < end:
        assert len(fired) <= 10_000, "beat would send without end"
        due, wait = given_.is_due(last)
        if due:
            fired.append(now)
            last = given_.now()
        now += timedelta(seconds=max(wait, 1e-6))
    return fired


def ours(given_: Any, app: Celery, start: datetime, end: datetime) -> list[datetime]:
    """Return our slots in that time."""
    after, slots, instant = following(given_, app), [], start
    while (instant := after(instant)) < end:
        slots.append(instant)
    return slots


@given(
    crontabs(),
    st.sampled_from([SPRING, AUTUMN]),
    st.integers(1, 47),
    st.sampled_from(["Europe/Paris", "UTC"]),
)
@example(crontab(minute="*"), AUTUMN, 2, "Europe/Paris")
@example(crontab(minute="0", hour="*/2"), SPRING, 3, "Europe/Paris")
@example(crontab(minute="0", hour="0"), AUTUMN, 7, "Europe/Paris")
def test_around_a_change_of_clocks_a_crontab_runs_when_it_runs_in_beat(
    cron: crontab, change: datetime, before: int, zone: str
) -> None:
    """Two days, every instant the same: a drop-in is one on these two nights too."""
    start = change - timedelta(hours=before)
    end = start + timedelta(days=2)
    app = APPS[zone]
    assert ours(cron, app, start, end) == beats(cron, app, start, end)


@pytest.mark.parametrize(
    ("cron", "night", "runs"),
    [
        (crontab(minute="30", hour="2"), SPRING, ["29 03:30 +0200", "30 02:30 +0200"]),
        (crontab(minute="30", hour="2"), AUTUMN, ["25 02:30 +0200", "26 02:30 +0100"]),
        (crontab(minute="30", hour="8"), SPRING, ["29 08:30 +0200", "30 08:30 +0200"]),
        (crontab(minute="0", hour="2-3"), SPRING, ["29 03:00 +0200", "30 02:00 +0200"]),
        (crontab(minute="59"), AUTUMN, ["25 02:59 +0200", "25 03:59 +0100"]),
    ],
)
def test_the_night_in_which_clocks_change(
    cron: crontab, night: datetime, runs: list[str]
) -> None:
    """What was due in the hour left out runs after it; nothing runs twice."""
    after = following(cron, APPS["Europe/Paris"])
    first = after(night - timedelta(minutes=45))
    found = [first, after(first)]
    assert [f"{run.astimezone(PARIS):%d %H:%M %z}" for run in found] == runs


@given(crontabs(), st.integers(0, 3599))
@example(crontab(minute="*"), 600)
@example(crontab(minute="15", hour="2"), 600)
def test_an_entry_first_seen_in_the_second_pass_of_an_hour_runs_like_any_other(
    cron: crontab, seconds: int
) -> None:
    """Its next slot is the one after that hour, or later; not a past one, not none.

    Asked in that hour, Celery names an instant of the first pass: beat would send
    without end, and a row that believed it would never be due again.
    """
    after = following(cron, APPS["Europe/Paris"])
    assert after(AUTUMN + timedelta(seconds=seconds)) == after(
        AUTUMN - timedelta(seconds=1)
    )


@given(
    st.sampled_from([60, 90, 300, 3600, 5400, 86_400, 7 * 86_400]),
    st.sampled_from([SPRING, AUTUMN]),
    st.integers(0, 3 * 86_400),
)
def test_a_relative_interval_runs_when_it_runs_in_beat(
    seconds: int, change: datetime, before: int
) -> None:
    """Rounded to its resolution, by Celery's own arithmetic."""
    start = change - timedelta(seconds=before)
    end = start + timedelta(seconds=max(3 * seconds, 4 * 3600))
    every = schedule(timedelta(seconds=seconds), relative=True)
    app = APPS["Europe/Paris"]
    slots = ours(every, app, start, end)
    assert slots == beats(every, app, start, end)
    assert slots


@given(
    st.sampled_from(["sunrise", "sunset", "solar_noon", "dawn_civil", "dusk_nautical"]),
    st.floats(-40, 40),
    st.floats(-180, 180),
    instants,
)
def test_the_sun_comes_next_about_a_day_later(
    event: Any, latitude: float, longitude: float, last: datetime
) -> None:
    """After the last; a day apart, give or take what seasons do; whatever now is."""
    sun = solar(event, latitude, longitude)
    after = following(sun, APPS["Europe/Paris"])
    first = after(last)
    second = after(first)
    assert last < first <= last + timedelta(days=1, hours=2)
    assert abs(second - first - timedelta(days=1)) < timedelta(minutes=30)


@given(crontabs(), zones, instants, st.integers(2, 30))
def test_each_instant_follows_from_the_one_before(
    cron: crontab, zone: str, last: datetime, count: int
) -> None:
    """Strictly forward: the same slot is never offered twice."""
    after, found = following(cron, APPS[zone]), [last]
    for _ in range(count):
        found.append(after(found[-1]))
    assert found == sorted(set(found))
