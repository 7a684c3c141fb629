"""Schedules by a calendar, for ``beat_schedule``: with our scheduler or Celery's beat.

``cron``         five fields or six, with seconds; on working days only, if wanted
``recurrence``   every so many hours, days, weeks, months, years or working days
``rrule``        a rule of RFC 5545
``splay``        the same, moved on so that equal entries do not come together
``jitter``       each instant a little later, by another time

Each has a time zone, a start and an end of its own, says in ``words`` when it comes,
and is refused (Misconfigured) if it never does. What happens when clocks change:
docs/how-to/calendars.md, decided in ``zones``.
"""

from celery_pecker.calendars.cron import Cron, cron
from celery_pecker.calendars.phrases import in_words
from celery_pecker.calendars.recurrence import Recurrence, recurrence
from celery_pecker.calendars.rules import RRule, rrule
from celery_pecker.calendars.schedule import CalendarSchedule
from celery_pecker.calendars.spread import Jittered, Splayed, jitter, splay
from celery_pecker.calendars.workdays import WorkingDays

__all__ = [
    "CalendarSchedule",
    "Cron",
    "Jittered",
    "RRule",
    "Recurrence",
    "Splayed",
    "WorkingDays",
    "cron",
    "in_words",
    "jitter",
    "recurrence",
    "rrule",
    "splay",
]
