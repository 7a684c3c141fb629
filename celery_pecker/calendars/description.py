"""Describe any schedule in words: Celery's own too."""

from __future__ import annotations

from typing import Any

from celery.schedules import crontab, schedule, solar

from celery_pecker.calendars import phrases
from celery_pecker.calendars.fields import parse
from celery_pecker.calendars.schedule import CalendarSchedule
from celery_pecker.kernel.errors import Misconfigured


def in_words(when: Any) -> str:
    """Return a schedule in words; for a class of the user's own, its ``str``."""
    if isinstance(when, CalendarSchedule):
        return when.words
    if type(when) is crontab:
        return _crontab(when)
    if type(when) is schedule:
        text = phrases.seconds_in_words(when.seconds)
        return f"{text}, on whole ones" if when.relative else text
    if type(when) is solar:
        event = when.event.replace("_", " ")
        return f"at {event} at latitude {when.lat:g}, longitude {when.lon:g}"
    return str(when)


def _crontab(when: Any) -> str:
    parts = (
        when._orig_minute,  # noqa: SLF001  # what it was made of, kept for pickles
        when._orig_hour,  # noqa: SLF001
        when._orig_day_of_month,  # noqa: SLF001
        when._orig_month_of_year,  # noqa: SLF001
        when._orig_day_of_week,  # noqa: SLF001
    )
    try:
        fields = parse("crontab", " ".join(str(one) for one in parts))
    except Misconfigured:  # a set of numbers, a form of its own
        return str(when)
    return phrases.of_fields(fields, either=False)
