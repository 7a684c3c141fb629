"""Recurrence that people can read: a start, a level, every so many, on which days."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Literal, cast

from celery_pecker.calendars import phrases
from celery_pecker.calendars.checks import Instant, Zone, refuse
from celery_pecker.calendars.fields import DAYS as DAY_NAMES
from celery_pecker.calendars.rules import RuleTimes
from celery_pecker.calendars.schedule import CalendarSchedule, utc_of
from celery_pecker.calendars.workdays import Calendar, Workdays, workdays
from celery_pecker.calendars.zones import LocalRule
from celery_pecker.kernel.declared import is_whole

Level = Literal["hour", "day", "week", "month", "year", "workday"]
LEVELS = ("hour", "day", "week", "month", "year", "workday")
MOST = 1_000
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
FREQ = {"day": "DAILY", "week": "WEEKLY", "month": "MONTHLY", "year": "YEARLY"}
RRULE_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


@dataclass(frozen=True, slots=True)
class WorkdayTimes:
    """Local times of every so many working days, counted from the start."""

    start: datetime
    every: int
    calendar: Workdays
    hourly = False

    def first(self, local: datetime) -> datetime | None:
        """Return the first local time not before another."""
        day, at = local.date(), self.start.time()
        if local.time() > at:
            day += DAY
        day = max(day, self.start.date())
        passed = self.calendar.between(self.start.date(), day)
        next_day = self.calendar.later(day, -passed % self.every)
        return None if next_day is None else datetime.combine(next_day, at)


class Recurrence(CalendarSchedule):
    """A schedule of every so many hours, days, weeks, months, years, workdays.

    It counts from ``start``, whose time of day it keeps, and nothing comes before it.
    ``days``: with "week" Monday is 1 or "mon"; with "month" 1 to 31, -1 is the last.
    ``calendar``: a country or a calendar, for "workday"; without it Monday to Friday.
    Raises Misconfigured, also if it would never come.
    """

    def __init__(  # noqa: PLR0913  # each one says how it differs from another
        self,
        *,
        start: Instant,
        level: Level,
        every: int = 1,
        days: Sequence[int | str] | None = None,
        zone: Zone | None = None,
        calendar: Calendar | None = None,
        end: Instant | None = None,
    ) -> None:
        options = {
            "start": start,
            "level": level,
            "every": every,
            "days": None if days is None else [*days],
            "zone": zone,
            "calendar": calendar,
            "end": end,
        }
        super().__init__("recurrence", (), options)
        if self.start is None:
            refuse(self._text, "start", start, "an instant: the first run is at it")
        if level not in LEVELS:
            refuse(self._text, "level", level, f"one of {', '.join(LEVELS)}")
        if calendar is not None and level != "workday":
            refuse(self._text, "calendar", calendar, "none but with level='workday'")
        self.level = level
        if not is_whole(every, 1, MOST):
            refuse(self._text, "every", every, f"a whole number from 1 to {MOST}")
        self.every = every
        self.days = _days(self._text, level, days)
        self.calendar = workdays(self._text, calendar) if level == "workday" else None
        if level == "hour":
            self.shortest = 3600.0 * self.every
        self._check()

    @property
    def words(self) -> str:
        """The schedule in words."""
        start = self.local_start(self.own_zone or UTC)
        text = phrases.of_level(self.level, self.every, start, self.days, self.calendar)
        return phrases.framed(text, self)

    def local_start(self, zone: tzinfo) -> datetime:
        """Return the start as local time."""
        start = cast("datetime", self.start)
        return start if start.tzinfo is None else start.astimezone(zone)

    def _after(self, utc: datetime, zone: tzinfo) -> datetime | None:
        if self.level != "hour":
            return super()._after(utc, zone)
        # Hours are real time: none is lost and none comes twice when clocks change.
        start, period = utc_of(cast("datetime", self.start), zone), self.every * HOUR
        return start + ((utc - start) // period + 1) * period

    def _rule_in(self, zone: tzinfo) -> LocalRule:
        start = self.local_start(zone).replace(tzinfo=None)
        if self.calendar is not None:
            return WorkdayTimes(start, self.every, self.calendar)
        parts = {"FREQ": FREQ[self.level], "INTERVAL": str(self.every)}
        if self.level == "week":
            days = self.days or (start.isoweekday(),)
            parts["BYDAY"] = ",".join(RRULE_DAYS[one - 1] for one in days)
        elif self.level == "month":
            parts["BYMONTHDAY"] = ",".join(map(str, self.days or (start.day,)))
        return RuleTimes(parts, start)


recurrence = Recurrence


def _days(what: str, level: Level, days: Sequence[int | str] | None) -> tuple[int, ...]:
    if days is None:
        return ()
    if level == "week":
        names = {name: number for number, name in enumerate(DAY_NAMES)} | {"sun": 7}
        numbers = [names.get(str(one).lower()[:3], one) for one in days]
        allowed, fits = "of 1 (Monday) to 7 and 'mon' to 'sun'", range(1, 8)
    elif level == "month":
        numbers = [*days]
        allowed, fits = "of 1 to 31, or of -1 (the last) to -31", range(-31, 32)
    else:
        refuse(what, "days", days, "none but with level='week' or 'month'")
    known = [one for one in numbers if type(one) is int and one and one in fits]
    if not known or len(known) < len(numbers):
        refuse(what, "days", days, f"a list {allowed}")
    return tuple(sorted(set(known)))
