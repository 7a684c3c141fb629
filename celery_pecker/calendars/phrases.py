"""Describe schedules in words, as ``pecker next`` prints them: Celery's own too."""

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

from celery.schedules import crontab, schedule, solar

from celery_pecker.calendars.fields import DAY_NAMES as DAYS
from celery_pecker.calendars.fields import MONTH_NAMES as MONTHS
from celery_pecker.calendars.fields import Fields, crontab_parts, parse
from celery_pecker.calendars.schedule import CalendarSchedule
from celery_pecker.kernel.errors import Misconfigured

TIMES, TWO = 6, 2
"""Times of the day that are listed one by one."""
DAY, HOUR, YEAR = 24, 60, 12
LAST_OF_WEEK = 7


def of_fields(fields: Fields, *, either: bool) -> str:
    """Return a cron expression in words."""
    text = _times(fields)
    by_month = "" if fields.any_day else f"{_plural('day', fields.day)} of the month"
    by_week = "" if fields.any_weekday else _weekdays(fields.weekday)
    if by_month and by_week:
        between = "or on" if either else "if it is"
        text += f", on {by_month} {between} {by_week}"
    elif by_month or by_week:
        text += f", on {by_month or by_week}"
    if len(fields.month) < YEAR:
        text += f", in {_listed([MONTHS[one - 1] for one in fields.month])}"
    return text


def of_level(
    level: str,
    every: int,
    start: datetime,
    days: Sequence[int],
    calendar: object = None,
) -> str:
    """Return a recurrence in words, from its start as local time."""
    unit = "working day" if level == "workday" else level
    text = f"every {unit}" if every == 1 else f"every {every} {unit}s"
    if level == "hour":
        return f"{text} (real time)"
    if level == "week":
        numbers = days or (start.isoweekday(),)
        text += f" on {_listed([DAYS[n % LAST_OF_WEEK] for n in numbers])}"
    if level == "month":
        text += f" on {_month_days(days or (start.day,))}"
    if level == "year":
        text += f" on {start.day} {MONTHS[start.month - 1]}"
    text += f" at {_clock(start.hour, start.minute, start.second)}"
    return text if calendar is None else f"{text} ({calendar})"


def framed(text: str, one: CalendarSchedule) -> str:
    """Return the words with zone, start and end."""
    text += f", time of {one.own_zone}" if one.own_zone else ""
    text += f", from {_shown(one.start, one.own_zone)}" if one.start else ""
    return text + (f", until {_shown(one.end, one.own_zone)}" if one.end else "")


def seconds_in_words(seconds: float) -> str:
    """Return a period: every second, every 5 minutes."""
    for unit, length in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= length and seconds % length == 0:
            return _every(round(seconds / length), unit)
    return _every(seconds, "second")


def _shown(instant: datetime, zone: tzinfo | None) -> str:
    if instant.tzinfo is not None and zone is not None:
        instant = instant.astimezone(zone).replace(tzinfo=None)
    return str(instant)


def _times(fields: Fields) -> str:
    seconds, minutes, hours = fields.second, fields.minute, fields.hour
    if len(seconds) * len(minutes) * len(hours) <= TIMES:
        return "at " + _listed(
            [_clock(h, m, s) for h in hours for m in minutes for s in seconds]
        )
    parts = []
    if seconds != (0,):
        parts.append(_of(seconds, "second", 60))
    if len(minutes) < HOUR or seconds == (0,):
        parts.append(_of(minutes, "minute", 60))
    if len(hours) < DAY or len(minutes) == 1:
        parts.append(_of(hours, "hour", 24))
    return ", ".join(parts)


def _of(numbers: Sequence[int], unit: str, full: int) -> str:
    """Return one field: every 5 minutes, at minute 3, hours 8 to 17."""
    step = numbers[1] - numbers[0] if len(numbers) > 1 else full
    if [*numbers] == [*range(0, full, step)] and len(numbers) > 1:
        return _every(step, unit)
    return f"at {_plural(unit, numbers)}"


def _every(number: float, unit: str) -> str:
    return f"every {unit}" if number == 1 else f"every {number:g} {unit}s"


def _plural(unit: str, numbers: Sequence[int]) -> str:
    texts: list[str] = []
    first = before = numbers[0]
    for number in [*numbers[1:], -1]:
        if number != before + 1:
            ends = [first] if first == before else [first, before]
            texts.append(
                (" to " if before > first + 1 else " and ").join(map(str, ends))
            )
            first = number
        before = number
    return f"{unit}{'s' if len(numbers) > 1 else ''} {_listed(texts)}"


def _weekdays(numbers: Sequence[int]) -> str:
    """Return days of the week, Sunday being 0, from Monday on."""
    shown = sorted((number - 1) % LAST_OF_WEEK for number in numbers)
    names = [DAYS[(one + 1) % LAST_OF_WEEK] for one in shown]
    together = shown[-1] - shown[0] + 1 == len(shown) > TWO
    return f"{names[0]} to {names[-1]}" if together else _listed(names)


def _month_days(days: Sequence[int]) -> str:
    ahead = [one for one in days if one > 0]
    back = [one for one in days if one < 0]
    names = [
        "the last day" if one == -1 else f"day {-one} from the end" for one in back
    ]
    return _listed(([_plural("day", ahead)] if ahead else []) + names)


def _clock(hour: int, minute: int, second: int) -> str:
    text = f"{hour:02}:{minute:02}"
    return f"{text}:{second:02}" if second else text


def _listed(texts: Sequence[str]) -> str:
    if len(texts) == 1:
        return texts[0]
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def of_rule(parts: Mapping[str, str]) -> str:
    """Return a rule of RFC 5545 in words, as far as it has short ones."""
    unit = {"DAILY": "day"}.get(parts["FREQ"], parts["FREQ"].lower().removesuffix("ly"))
    text = _every(int(parts.get("INTERVAL", "1")), unit)
    rest = [f"{key} {value}" for key, value in parts.items() if key.startswith("BY")]
    if rest:
        text += f" by {', '.join(rest)}"
    return f"{text}, {parts['COUNT']} times" if "COUNT" in parts else text


def in_words(when: Any) -> str:
    """Return a schedule in words; for a class of the user's own, its ``str``."""
    if isinstance(when, CalendarSchedule):
        return when.words
    if type(when) is crontab:
        return _crontab(when)
    if type(when) is schedule:
        text = seconds_in_words(when.seconds)
        return f"{text}, on whole ones" if when.relative else text
    if type(when) is solar:
        event = when.event.replace("_", " ")
        return f"at {event} at latitude {when.lat:g}, longitude {when.lon:g}"
    return str(when)


def _crontab(when: Any) -> str:
    try:
        fields = parse("crontab", " ".join(map(str, crontab_parts(when))))
    except Misconfigured:  # a set of numbers, a form of its own
        return str(when)
    return of_fields(fields, either=False)
