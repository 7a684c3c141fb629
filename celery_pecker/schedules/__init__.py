"""Schedules: what is due, who claims it, what became of it, and how people edit it.

==================  ==================================================================
``engine``          entries, their slots, and the one statement that decides
``declarations``    the entries of an app's ``beat_schedule``, read and checked
``stored``          schedules that people and programs edit: `Schedules`
``recurrence``      Celery's schedules and our calendars, asked by the database's clock
``local``           runs in the worker that won them, without a broker
``history``         what became of slots
``overview``        what people see of all this, read from the tables
``replica``         one scheduler of a process, put together
``tracing``         one OpenTelemetry trace for one slot
==================  ==================================================================
"""

from typing import TYPE_CHECKING

from celery_pecker.kernel.errors import InvalidField, UnknownSchedule, VersionConflict
from celery_pecker.kernel.lazy_names import lazy_names

if TYPE_CHECKING:
    from celery_pecker.schedules.stored.app import Schedules
    from celery_pecker.schedules.stored.model import Change, ScheduleRow

__all__ = [
    "Change",
    "InvalidField",
    "ScheduleRow",
    "Schedules",
    "UnknownSchedule",
    "VersionConflict",
]

__getattr__, __dir__ = lazy_names(
    globals(),
    {"stored.model": "Change ScheduleRow", "stored.app": "Schedules"},
)
