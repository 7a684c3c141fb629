"""Find instants of a rule that goes by local time, in a zone whose clocks change.

The rule for clocks that change, whichever schedule it is:

- A local time that does not exist (the clocks go forward over it) is moved on by as
  much as the clocks are: 02:30 becomes 03:30. Two local times that become one instant
  are one run.
- A local time that exists twice (the clocks go back) counts the first time. Rules of
  every hour count both, so that no real hour is without its runs.

The first half is what RFC 5545 says of a local time that does not exist, and Python's
``fold=0``. Pure: the tz database is read, no clock.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Protocol

SECOND, DAY = timedelta(seconds=1), timedelta(days=1)
STEP = timedelta(hours=6)
"""Two changes of a zone's clocks lie further apart than this."""
LAST_YEAR = 9000
"""No schedule has an instant after it."""


class LocalRule(Protocol):
    """What gives local times, in whole seconds."""

    @property
    def hourly(self) -> bool:
        """Whether it goes by hours or less, on and on: both passes of an hour count."""

    def first(self, local: datetime) -> datetime | None:
        """Return the first local time not before another; None: there is none."""


@dataclass(frozen=True, slots=True)
class OffsetPeriod:
    """A time in which a zone keeps its distance from UTC; naive UTC, end excluded."""

    start: datetime
    end: datetime
    before: timedelta
    """The distance just before it: less if clocks went forward at its start."""
    offset: timedelta


def offset_at(zone: tzinfo, utc: datetime) -> timedelta:
    """Return a zone's distance from UTC at a naive UTC instant."""
    return utc.replace(tzinfo=UTC).astimezone(zone).utcoffset() or timedelta()


@lru_cache(maxsize=20_000)
def offset_periods(zone: tzinfo, year: int) -> tuple[OffsetPeriod, ...]:
    """Return the offset periods of a year (UTC), in order; takes a millisecond once.

    The first begins two days before the year, so that a change just before its
    beginning is seen as one.
    """
    first, end = datetime(year, 1, 1), datetime(year + 1, 1, 1)  # noqa: DTZ001
    start = first - 2 * DAY
    before = offset_at(zone, start - SECOND)
    parts: list[OffsetPeriod] = []
    low, offset = start, offset_at(zone, start)
    while low < end:
        high = min(low + STEP, end - SECOND)  # a change at the end is the next year's
        if offset_at(zone, high) != offset:
            change = _change(zone, low, high)
            parts.append(OffsetPeriod(start, change, before, offset))
            start, before, offset = change, offset, offset_at(zone, change)
            low = change
        else:
            low = high if high > low else end
    parts.append(OffsetPeriod(start, end, before, offset))
    return tuple(one for one in parts if one.end > first)


def _change(zone: tzinfo, low: datetime, high: datetime) -> datetime:
    """Return the first second at which a zone has not the distance of ``low``."""
    offset = offset_at(zone, low)
    while high - low > SECOND:
        middle = low + (high - low) // 2
        middle = middle.replace(microsecond=0)
        if offset_at(zone, middle) == offset:
            low = middle
        else:
            high = middle
    return high


def first_after(rule: LocalRule, zone: tzinfo, utc: datetime) -> datetime | None:
    """Return the rule's first instant after another, both naive UTC; None: none."""
    least = utc.replace(microsecond=0) + SECOND
    year = least.year
    asked, pending = least, least
    known = False  # whether the rule has no local time from asked to pending
    while year <= LAST_YEAR:
        for one in offset_periods(zone, year):
            if one.end <= least:
                continue
            start = max(least, one.start)
            low = start + min(one.offset, one.before)
            if known and asked <= low and one.end + one.offset <= pending:
                continue
            moved = _moved(rule, one, start)
            asked = start + one.offset
            if one.before > one.offset and not rule.hourly:
                asked = max(asked, one.start + one.before)
            at = rule.first(asked)
            if at is not None and at < one.end + one.offset:
                instant = at - one.offset
                return instant if moved is None else min(instant, moved)
            if moved is not None or at is None:
                return moved
            pending, known = at, True
        year = max(year + 1, pending.year - 1)
    return None


def _moved(rule: LocalRule, one: OffsetPeriod, start: datetime) -> datetime | None:
    """Return the first instant of a local time that the clocks went forward over."""
    if one.before >= one.offset or start - one.start >= one.offset - one.before:
        return None
    local = rule.first(start + one.before)
    if local is None or local >= one.start + one.offset:
        return None
    return local - one.before
