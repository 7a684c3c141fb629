"""Working days: Monday to Friday, a country's by ``holidays``, or a calendar given."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from datetime import date, timedelta
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, Protocol

from celery_pecker.calendars.checks import refuse
from celery_pecker.kernel.errors import Misconfigured

YEARS_AHEAD = 50
"""How far a working day is looked for."""
SATURDAY = 6
DAY = timedelta(days=1)


class WorkingDays(Protocol):
    """A calendar of yours. Those of the library ``holidays`` have this, too."""

    def is_working_day(self, day: date, /) -> bool:
        """Return whether people work on a day."""


Calendar = str | WorkingDays


class Workdays:
    """Working days in order; a year of them is asked for once."""

    def __init__(self, name: str, works: Callable[[date], bool]) -> None:
        self._name = name
        self._works = works
        self._year = cache(self._days_of)

    def __str__(self) -> str:
        return self._name

    def works(self, day: date) -> bool:
        """Return whether a day is one."""
        days = self._year(day.year)
        index = bisect_left(days, day.toordinal())
        return index < len(days) and days[index] == day.toordinal()

    def between(self, first: date, last: date) -> int:
        """Return how many there are from one day up to another, that one excluded."""
        return self._count(first.year, last) - self._count(first.year, first)

    def later(self, day: date, count: int) -> date | None:
        """Return the one that has ``count`` of them between itself and a day."""
        for year in range(day.year, min(day.year + YEARS_AHEAD, date.max.year)):
            days = self._year(year)
            index = bisect_left(days, day.toordinal()) + count
            if index < len(days):
                return date.fromordinal(days[index])
            count = index - len(days)
        return None

    def _count(self, since: int, day: date) -> int:
        """Return how many there are from a year on up to a day, that one excluded."""
        whole = sum(len(self._year(year)) for year in range(since, day.year))
        return whole + bisect_right(self._year(day.year), day.toordinal() - 1)

    def _days_of(self, year: int) -> tuple[int, ...]:
        first = date(year, 1, 1)
        length = (date(year, 12, 31) - first).days + 1
        days = (first + n * DAY for n in range(length))
        return tuple(day.toordinal() for day in days if self._works(day))


def workdays(what: str, calendar: object) -> Workdays:
    """Return a calendar's working days; None: Monday to Friday.

    A country is named by its ISO code, with a subdivision after a hyphen: "DE-BY".
    """
    if calendar is None:
        return Workdays("Monday to Friday", lambda day: day.isoweekday() < SATURDAY)
    if isinstance(calendar, str):
        return _country(what, calendar)
    works = getattr(calendar, "is_working_day", None)
    if not callable(works):
        allowed = (
            "a country of the library holidays, as 'CN' or 'DE-BY', or an object with"
            " is_working_day(date)"
        )
        refuse(what, "calendar", calendar, allowed)
    return Workdays(type(calendar).__name__, works)


def _country(what: str, name: str) -> Workdays:
    try:
        return _known_country(name)
    except ImportError as error:
        raise Misconfigured(
            f"{what}: calendar is {name!r}, which needs the library holidays:"
            ' pip install "celery-pecker[calendars]"'
        ) from error
    except NotImplementedError as error:
        raise Misconfigured(
            f"{what}: calendar is {name!r}; allowed is a country of the library"
            f" holidays, as 'CN' or 'DE-BY' ({error})"
        ) from error


@lru_cache(maxsize=1_000)
def _known_country(name: str) -> Workdays:
    """Return a country's working days, once for all entries of a process."""
    holidays: Any = import_module("holidays")
    country, _, part = name.partition("-")
    known = holidays.country_holidays(country, subdiv=part or None)
    return Workdays(name, known.is_working_day)
