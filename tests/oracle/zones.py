"""When a rule comes around a change of clocks, minute by minute and by hand.

Nothing of the package is used: each minute of UTC is read on the local clock. The rule
for clocks that change is said once more, in three lines of ``expected``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
AROUND = timedelta(hours=27)
"""More than a day on both sides of a change: the longest gap is a day."""

Matches = Callable[[datetime], bool]


@dataclass(frozen=True, slots=True)
class Minute:
    """A minute of UTC, as a local clock shows it."""

    utc: datetime
    local: datetime
    second_time: bool


def changes(zone: ZoneInfo, first: int, last: int) -> list[datetime]:
    """Return the minutes of UTC from which on a zone has another offset."""
    found = []
    instant = datetime(first, 1, 1, tzinfo=UTC)
    end = datetime(last + 1, 1, 1, tzinfo=UTC)
    offset = instant.astimezone(zone).utcoffset()
    while instant < end:
        later = instant + HOUR
        if later.astimezone(zone).utcoffset() != offset:
            while instant.astimezone(zone).utcoffset() == offset:
                instant += MINUTE
            found.append(instant)
            offset = instant.astimezone(zone).utcoffset()
        instant = later
    return found


def minutes(zone: ZoneInfo, change: datetime) -> list[Minute]:
    """Return the minutes around a change."""
    found, utc = [], change - AROUND
    while utc < change + AROUND:
        local = utc.astimezone(zone)
        plain = local.replace(tzinfo=None)
        found.append(Minute(utc, plain.replace(fold=0), bool(local.fold)))
        utc += MINUTE
    return found


def expected(around: list[Minute], matches: Matches, *, hourly: bool) -> list[datetime]:
    """Return the instants of a rule in the minutes around a change."""
    found = set()
    before = None
    for one in around:
        if matches(one.local) and (hourly or not one.second_time):
            found.add(one.utc)
        if before is not None:
            gap = one.local - before.local - MINUTE
            for n in range(max(0, gap // MINUTE)):  # local times that are left out
                if matches(before.local + (n + 1) * MINUTE):
                    found.add(one.utc + n * MINUTE)
        before = one
    return sorted(one for one in found if one <= around[-1].utc)
