"""Days of a recurrence: every so many days, weeks, months, years, working days. Pure.

Each kind answers one question: the first day of the rule that is not before another.
"""

from __future__ import annotations

from bisect import bisect_left
from calendar import monthrange
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Protocol

from celery_pecker.calendars.workdays import Workdays

LAST_YEAR = 9000
PERIODS_AHEAD = 400
"""How many months or years are looked through for a day: all that differ."""
DAY = timedelta(days=1)


class Days(Protocol):
    """Days of a rule."""

    def first(self, day: date) -> date | None:
        """Return the first one not before a day, which is not before the start."""
        ...


@dataclass(frozen=True, slots=True)
class EveryDay:
    """Every so many days."""

    start: date
    every: int

    def first(self, day: date) -> date | None:
        """Return the first one not before a day."""
        periods = -((self.start - day).days // self.every)
        return self.start + periods * self.every * DAY


@dataclass(frozen=True, slots=True)
class EveryWeek:
    """Days of every so many weeks, which begin on Monday."""

    start: date
    every: int
    days: Sequence[int]
    """Monday is 1, Sunday is 7."""

    def first(self, day: date) -> date | None:
        """Return the first one not before a day."""
        monday = self.start - (self.start.isoweekday() - 1) * DAY
        week, weekday = divmod((day - monday).days, 7)
        behind = week % self.every
        index = bisect_left(self.days, weekday + 1)
        if behind or index == len(self.days):
            week, index = week + self.every - behind, 0
        return monday + (7 * week + self.days[index] - 1) * DAY


@dataclass(frozen=True, slots=True)
class EveryMonth:
    """Days of every so many months; a month without such a day has none."""

    start: date
    every: int
    days: Sequence[int]
    """From 1; from -1 backwards from the month's end."""

    def first(self, day: date) -> date | None:
        """Return the first one not before a day."""
        anchor = self.start.year * 12 + self.start.month - 1
        month = day.year * 12 + day.month - 1
        month += -(month - anchor) % self.every
        for _ in range(PERIODS_AHEAD):
            year, number = divmod(month, 12)
            if year > LAST_YEAR:
                break
            for one in self._days(year, number + 1):
                if one >= day:
                    return one
            month += self.every
        return None

    def _days(self, year: int, month: int) -> list[date]:
        length = monthrange(year, month)[1]
        numbers = {one if one > 0 else length + 1 + one for one in self.days}
        return [date(year, month, n) for n in sorted(numbers) if 1 <= n <= length]


@dataclass(frozen=True, slots=True)
class EveryYear:
    """The start's day every so many years; 29 February is in leap years only."""

    start: date
    every: int

    def first(self, day: date) -> date | None:
        """Return the first one not before a day."""
        year = day.year + -(day.year - self.start.year) % self.every
        for _ in range(PERIODS_AHEAD):
            if year > LAST_YEAR:
                break
            month, number = self.start.month, self.start.day
            if number <= monthrange(year, month)[1]:
                that_day = date(year, month, number)
                if that_day >= day:
                    return that_day
            year += self.every
        return None


@dataclass(frozen=True, slots=True)
class EveryWorkday:
    """Every so many working days, the first one from the start on being the first."""

    start: date
    every: int
    calendar: Workdays

    def first(self, day: date) -> date | None:
        """Return the first one not before a day."""
        passed = self.calendar.between(self.start, day)
        return self.calendar.later(day, -passed % self.every)


@dataclass(frozen=True, slots=True)
class AtTime:
    """Days of a rule at one time of the day: local times."""

    start: date
    at: time
    days: Days
    hourly = False

    def first(self, local: datetime) -> datetime | None:
        """Return the first local time not before another."""
        day = local.date()
        if local.time() > self.at:
            day += DAY
        next_day = self.days.first(max(day, self.start))
        return None if next_day is None else datetime.combine(next_day, self.at)
