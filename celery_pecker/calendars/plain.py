"""Any schedule in words: Celery's own too."""

from __future__ import annotations

from typing import Any

from celery.schedules import crontab, schedule, solar

from celery_pecker.calendars import words
from celery_pecker.calendars.fields import parse
from celery_pecker.calendars.schedule import CalendarSchedule
from celery_pecker.kernel.errors import Misconfigured


def in_words(given: Any) -> str:
    """Return a schedule in words; of a class of somebody else's, what it prints."""
    if isinstance(given, CalendarSchedule):
        return given.words
    if type(given) is crontab:
        return _crontab(given)
    if type(given) is schedule:
        text = words.seconds_in_words(given.seconds)
        return f"{text}, on whole ones" if given.relative else text
    if type(given) is solar:
        event = given.event.replace("_", " ")
        return f"at {event} at latitude {given.lat:g}, longitude {given.lon:g}"
    return str(given)


def _crontab(given: Any) -> str:
    parts = (
        given._orig_minute,  # noqa: SLF001  # what it was made of, kept for pickles
        given._orig_hour,  # noqa: SLF001
        given._orig_day_of_month,  # noqa: SLF001
        given._orig_month_of_year,  # noqa: SLF001
        given._orig_day_of_week,  # noqa: SLF001
    )
    try:
        fields = parse("crontab", " ".join(str(one) for one in parts))
    except Misconfigured:  # a set of numbers, a form of its own
        return str(given)
    return words.of_fields(fields, either=False)
