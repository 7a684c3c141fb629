"""Recurrence rules of RFC 5545, as calendars export them, by python-dateutil.

The levels of `recurrence` are such rules, too, but for hours and working days.

The library walks from the start, one period after another. Here it starts a period or
two before what is looked for, so that an answer costs the same however old the start
is. A rule that counts its instants (COUNT) is walked once.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, time, timedelta, tzinfo
from itertools import islice, takewhile
from typing import Any, cast

from dateutil.rrule import rrulestr

from celery_pecker.calendars import phrases
from celery_pecker.calendars.checks import Instant, Zone, refuse
from celery_pecker.calendars.schedule import CalendarSchedule, utc_of
from celery_pecker.kernel.declared import moment_of
from celery_pecker.kernel.errors import Misconfigured

UNITS = {"SECONDLY": 1.0, "MINUTELY": 60.0, "HOURLY": 3600.0, "DAILY": 86_400.0}
UNITS["WEEKLY"] = 7 * UNITS["DAILY"]
CALENDAR_UNITS = ("MONTHLY", "YEARLY")
BY_DAY = {"BYDAY", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO"}
PARTS = {"BYMONTH", "BYHOUR", "BYMINUTE", "BYSECOND", "BYSETPOS", "WKST", *BY_DAY}
PARTS |= {"FREQ", "INTERVAL", "COUNT", "UNTIL"}
CYCLE = 400
"""Years after which the Gregorian calendar comes again, days of the week too."""
LATEST = 9_597
"""The last year in which a rule is tried: the library gives up at the year 9999."""
COUNTED_UNTIL = 2200
MOST = 1_000
FIRST, LAST = datetime(1, 1, 1), datetime(9999, 1, 1)  # noqa: DTZ001  # local times
AHEAD = 16
"""Instants that are worked out at once; of a yearly rule 2: each year costs 0.4 ms."""
STEPS = {"DAILY": 300_000, "WEEKLY": 300_000, "MONTHLY": 300_000, "YEARLY": 300_000}
"""Days and times that one question may try, by FREQ: a second or so. 800 years have
292,194 days."""
SHORT_STEPS = 50_000
"""The same of a FREQ of hours or less, whose steps cost more."""


class TooManySteps(Misconfigured):
    """The next instant of a rule is not found in STEPS."""


class _Counted(tuple[int, ...]):  # noqa: SLOT001  # a tuple cannot have slots with names
    """Numbers of a part of a rule; the library asks it once or more in each period.

    A rule may match nothing for thousands of years (BYSETPOS), minute by minute, and
    the library gives no control back before it has found an instant.
    """

    steps: Iterator[int]

    def __contains__(self, number: object) -> bool:
        if next(self.steps, None) is None:
            raise TooManySteps(
                "its next instant is not found in so many steps as are tried"
            )
        return super().__contains__(number)


class RuleTimes:
    """Local times of one rule, from a start on."""

    def __init__(self, parts: Mapping[str, str], start: datetime) -> None:
        self._parts = parts
        self._start = start
        self._every = int(parts.get("INTERVAL", "1"))
        self.counts = "COUNT" in parts
        self._known: tuple[datetime, list[datetime]] = (LAST, [])

    @property
    def hourly(self) -> bool:
        """Whether it goes by hours or less, without end."""
        return UNITS.get(self._parts["FREQ"], UNITS["DAILY"]) < UNITS["DAILY"] and (
            not self.counts
        )

    def first(self, local: datetime) -> datetime | None:
        """Return the first local time not before another."""
        since, times = self._known
        if not since <= local or not times or local > times[-1]:
            if self.counts and since <= local:
                return None
            since, times = self._known = self._from(local)
        index = bisect_left(times, local)
        return times[index] if index < len(times) else None

    def _from(self, local: datetime) -> tuple[datetime, list[datetime]]:
        if self.counts:
            times = takewhile(
                lambda one: one.year < COUNTED_UNTIL, self._rule(self._start)
            )
            return FIRST, [*times]
        rule = self._near(max(local, self._start))
        ahead: list[datetime] = []
        try:
            most = 2 if self._parts["FREQ"] == "YEARLY" else AHEAD
            ahead.extend(islice((one for one in rule if one >= local), most))
        except TooManySteps:
            if not ahead:
                raise
        return local, ahead

    def comes(self) -> bool:
        """Return whether it has an instant in the 400 years from its start on.

        The same years of the calendar are looked at where they come last, since the
        library goes on to the year 9999 before it says that there is none.
        """
        cycles = (LATEST - self._start.year) // CYCLE
        late = self._start.replace(year=self._start.year + cycles * CYCLE)
        try:
            return next(iter(self._rule(late)), None) is not None
        except TooManySteps:
            raise
        except (OverflowError, ValueError):  # a week of the year 10000
            return False

    def _near(self, local: datetime) -> Any:
        """Return the rule from a period shortly before a local time on."""
        start, every = self._start, self._every
        freq, parts = self._parts["FREQ"], dict(self._parts)
        if freq not in CALENDAR_UNITS:
            period = timedelta(seconds=every * UNITS[freq])
            behind = (local - start) // period - 1
            return self._rule(start + behind * period if behind > 0 else start)
        months = 12 * (local.year - start.year) + local.month - start.month
        length = every * (12 if freq == "YEARLY" else 1)
        behind = months // length - 1
        if behind <= 0:
            return self._rule(start)
        if not BY_DAY & {*parts}:
            parts["BYMONTHDAY"] = str(start.day)
            if freq == "YEARLY" and "BYMONTH" not in parts:
                parts["BYMONTH"] = str(start.month)
        month = 0 if freq == "YEARLY" else start.month - 1
        year, month = divmod(12 * start.year + month + behind * length, 12)
        moved = start.replace(year=year, month=month + 1, day=1)
        return self._rule(moved, parts)

    def _rule(self, start: datetime, parts: Mapping[str, str] | None = None) -> Any:
        text = ";".join(f"{key}={one}" for key, one in (parts or self._parts).items())
        rule: Any = rrulestr(text, dtstart=start)
        steps = iter(range(STEPS.get(self._parts["FREQ"], SHORT_STEPS)))
        for part in ("_bymonth", "_byhour", "_byminute"):
            numbers = getattr(rule, part)
            if part == "_bymonth" and self._parts["FREQ"] != "YEARLY":
                numbers = numbers or range(1, 13)  # in a year's periods it says more
            if numbers:
                counted = _Counted(numbers)
                counted.steps = steps
                setattr(rule, part, counted)
        return rule


class RRule(CalendarSchedule):
    """A schedule by one RRULE of RFC 5545; DTSTART is ``start``.

    UNTIL stands in the rule or is ``end``; COUNT is 1 to 1,000. Raises Misconfigured,
    also if it would never come.
    """

    def __init__(
        self,
        rule: str,
        *,
        start: Instant,
        zone: Zone | None = None,
        end: Instant | None = None,
    ) -> None:
        options = {"start": start, "zone": zone, "end": end}
        super().__init__("rrule", (rule,), options)
        if self.start is None:
            refuse(self._text, "start", start, "an instant: the rule counts from it")
        parts = _parts(self._text, rule)
        until = parts.pop("UNTIL", None)
        if until is not None:
            if self.end is not None:
                refuse(self._text, "end", end, "none beside UNTIL")
            self.end = _until(self._text, until)
        self.parts = parts
        self.shortest = _shortest(parts)
        try:
            comes = self._rule_in(UTC).comes()
        except TooManySteps as error:
            refuse(self._text, "the rule", rule, f"one of less work ({error})")
        except (ValueError, TypeError) as error:
            refuse(self._text, "the rule", rule, f"one of RFC 5545 ({error})")
        if not comes:
            refuse(self._text, "the rule", rule, "one that comes within 400 years")
        self._check()

    @property
    def words(self) -> str:
        """The schedule in words."""
        return phrases.framed(phrases.of_rule(self.parts), self)

    def _rule_in(self, zone: tzinfo) -> RuleTimes:
        start = utc_of(cast("datetime", self.start), zone).replace(tzinfo=UTC)
        return RuleTimes(self.parts, start.astimezone(zone).replace(tzinfo=None))


rrule = RRule


def _parts(what: str, rule: object) -> dict[str, str]:
    allowed = "one RRULE of RFC 5545, as 'FREQ=MONTHLY;BYDAY=-1FR'"
    if not isinstance(rule, str):
        refuse(what, "the rule", rule, allowed)
    pairs = [one.partition("=") for one in rule.removeprefix("RRULE:").split(";")]
    parts = {key.strip().upper(): value.strip().upper() for key, _, value in pairs}
    if len(parts) < len(pairs) or not all(parts.values()) or {*parts} - PARTS:
        refuse(what, "the rule", rule, f"{allowed}, with {', '.join(sorted(PARTS))}")
    if parts.get("FREQ") not in {*UNITS, *CALENDAR_UNITS}:
        kinds = ", ".join((*UNITS, *CALENDAR_UNITS))
        refuse(what, "FREQ", parts.get("FREQ"), f"one of {kinds}")
    for key, most in (("INTERVAL", 100 * MOST), ("COUNT", MOST)):
        value = parts.get(key, "1")
        if not value.isdecimal() or not 1 <= int(value) <= most:
            refuse(what, key, value, f"a whole number from 1 to {most}")
    return parts


def _until(what: str, text: str) -> datetime:
    moment = moment_of(text)
    if moment is None:
        refuse(what, "UNTIL", text, "a date or an instant, as 20261231T180000Z")
    if "T" not in text:  # a date: the whole of that day
        moment = datetime.combine(moment, time(23, 59, 59))
    return moment


def _shortest(parts: Mapping[str, str]) -> float:
    """Return the least seconds between two local times of a rule."""
    every = int(parts.get("INTERVAL", "1"))
    freq = UNITS.get(parts["FREQ"], UNITS["DAILY"])
    for key, unit in (("BYSECOND", 1.0), ("BYMINUTE", 60.0), ("BYHOUR", 3600.0)):
        if "," in parts.get(key, "") and freq > unit:
            return unit
    return min(freq * every, UNITS["DAILY"])
