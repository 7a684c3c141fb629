"""Cron with seconds, a time zone of its own, and only on working days if wanted."""

from bisect import bisect_left
from calendar import monthrange
from collections.abc import Sequence
from datetime import date, datetime, time, tzinfo
from functools import lru_cache
from typing import Literal

from celery_pecker.calendars import phrases
from celery_pecker.calendars.checks import Instant, Zone, refuse
from celery_pecker.calendars.fields import Fields, parse
from celery_pecker.calendars.schedule import CalendarSchedule
from celery_pecker.calendars.workdays import Calendar, Workdays, workdays

Days = Literal["either", "both"]
MONTHS_AHEAD = 12 * 50
"""How far the next day of an expression is looked for: a 29 February that is a Sunday
comes after at most forty years."""
MONTHS_KNOWN = 1_000
"""Months whose days are kept."""


class CronRule:
    """Local times of an expression."""

    def __init__(
        self, fields: Fields, *, either: bool, calendar: Workdays | None
    ) -> None:
        self.fields = fields
        self.either = either and not fields.any_day and not fields.any_weekday
        self._calendar = calendar
        self._days = lru_cache(MONTHS_KNOWN)(self._days_of)

    @property
    def hourly(self) -> bool:
        """Whether it names every hour."""
        return len(self.fields.hour) == 24  # noqa: PLR2004  # of a day

    def first(self, local: datetime) -> datetime | None:
        """Return the first local time not before another."""
        at = self._at(local.hour, local.minute, local.second)
        if at is not None and local.day in self._days(local.year, local.month):
            return datetime.combine(local, at)
        day, at = self._day_after(local), self._at(0, 0, 0)
        return None if day is None or at is None else datetime.combine(day, at)

    def _at(self, hour: int, minute: int, second: int) -> time | None:
        """Return the first time of a day not before another."""
        fields = self.fields
        if hour in fields.hour:
            if minute in fields.minute:
                later = _from(fields.second, second)
                if later is not None:
                    return time(hour, minute, later)
            later = _from(fields.minute, minute + 1)
            if later is not None:
                return time(hour, later, fields.second[0])
        later = _from(fields.hour, hour + 1)
        if later is None:
            return None
        return time(later, fields.minute[0], fields.second[0])

    def _day_after(self, day: date) -> date | None:
        year, month, least = day.year, day.month, day.day + 1
        for _ in range(MONTHS_AHEAD):
            if month in self.fields.month:
                number = _from(self._days(year, month), least)
                if number is not None:
                    return date(year, month, number)
            month, least = month + 1, 1
            if month > 12:  # noqa: PLR2004  # of a year
                year, month = year + 1, 1
        return None

    def _days_of(self, year: int, month: int) -> tuple[int, ...]:
        """Return the days of a month on which it comes."""
        return tuple(
            day
            for day in range(1, monthrange(year, month)[1] + 1)
            if self._matches(date(year, month, day))
        )

    def _matches(self, day: date) -> bool:
        fields = self.fields
        if day.month not in fields.month:
            return False
        by_month = day.day in fields.day
        by_week = day.isoweekday() % 7 in fields.weekday
        if not ((by_month or by_week) if self.either else (by_month and by_week)):
            return False
        return self._calendar is None or self._calendar.works(day)


class Cron(CalendarSchedule):
    """A schedule by a cron expression of five fields, or six with seconds first.

    ``zone`` is the app's without it; nothing comes before ``start`` or after ``end``;
    with ``calendar`` it comes on working days only. ``days`` is needed where days of
    the month and of the week are both restricted: "either" or "both" must match.
    Raises Misconfigured, also if it would never come.
    """

    def __init__(  # each one says how it differs from another
        self,
        expression: str,
        *,
        zone: Zone | None = None,
        start: Instant | None = None,
        end: Instant | None = None,
        calendar: Calendar | None = None,
        days: Days | None = None,
    ) -> None:
        options = {
            "zone": zone,
            "start": start,
            "end": end,
            "calendar": calendar,
            "days": days,
        }
        super().__init__("cron", (expression,), options)
        fields = parse(self._text, expression)
        if days not in {None, "either", "both"}:
            refuse(self._text, "days", days, "'either' or 'both'")
        if days is None and not fields.any_day and not fields.any_weekday:
            allowed = (
                "'either' (one of the two is enough, as in Unix) or 'both' (as Celery's"
                " crontab has it), where both kinds of days are named"
            )
            refuse(self._text, "days", days, allowed)
        self.calendar = None if calendar is None else workdays(self._text, calendar)
        self._cron = CronRule(fields, either=days == "either", calendar=self.calendar)
        self.shortest = _shortest(fields)
        self._check()

    def _rule_in(self, zone: tzinfo) -> CronRule:
        return self._cron

    @property
    def words(self) -> str:
        """The schedule in words."""
        text = phrases.of_fields(self._cron.fields, either=self._cron.either)
        if self.calendar is not None:
            text += f", on working days only ({self.calendar})"
        return phrases.framed(text, self)


cron = Cron


def _from(numbers: Sequence[int], least: int) -> int | None:
    index = bisect_left(numbers, least)
    return numbers[index] if index < len(numbers) else None


def _shortest(fields: Fields) -> float:
    """Return the least seconds between two local times of an expression."""
    for numbers, full, unit in (
        (fields.second, 60, 1.0),
        (fields.minute, 60, 60.0),
        (fields.hour, 24, 3600.0),
    ):
        if len(numbers) > 1:
            around = [*numbers[1:], numbers[0] + full]
            pairs = zip(numbers, around, strict=True)
            return min(late - early for early, late in pairs) * unit
    return 86_400.0
