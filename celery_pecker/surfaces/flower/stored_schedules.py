"""What pages know of stored schedules: rows, changes, and whether people may edit."""

import json
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any

from celery import Celery

from celery_pecker.kernel.clock import to_us
from celery_pecker.schedules import ScheduleRow, Schedules
from celery_pecker.surfaces.flower.pages import Source
from celery_pecker.surfaces.flower.rendering import rows_of
from celery_pecker.surfaces.views import schedules as view
from celery_pecker.surfaces.views.schedules import compared

CHANGES = 30
"""Of one schedule, the newest."""
LONGEST = 200
"""Characters of a value in the list of facts."""
BRIEF = (
    *("words", "version", "problem", "declared_by_code", "done"),
    *("changed_at", "changed_by"),
)
DEFINITION = (
    *("args", "kwargs", "options", "schedule", "policies", "start", "end"),
    "created_at",
)
UNSET = (
    "Editing is off: pecker_allowed_tasks is not set. Set it to the names of the tasks"
    ' that people may schedule here, or to patterns, as ["reports.*"].'
)
EMPTY = (
    "Editing is off: pecker_allowed_tasks is empty, so that no task may be scheduled."
)


@cache
def schedules_of(app: Celery) -> Schedules:
    """Return the stored schedules of an app; one for all threads."""
    return Schedules(app)


def why_read_only(app: Celery) -> str:
    """Return why schedules cannot be edited here; empty if they can."""
    allow_list = schedules_of(app).allow_list
    if allow_list is None:
        return UNSET
    return "" if allow_list else EMPTY


def stored_of(source: Source, names: Sequence[str]) -> dict[str, ScheduleRow]:
    """Return those of the entries that are stored, by name."""
    if not names:
        return {}
    rows = schedules_of(source.app).list(names=names, limit=len(names))
    return {row.name: row for row in rows}


def removed_of(source: Source, names: Sequence[str]) -> set[str]:
    """Return which of the entries were stored, and are removed."""
    if not names:
        return set()
    rows = source.database.run("read_removed", names=[*names])
    return {name for (name,) in rows}


def brief(row: ScheduleRow) -> dict[str, Any]:
    """Return what the list shows of a stored schedule."""
    return _fields(row, BRIEF)


def full(row: ScheduleRow) -> dict[str, Any]:
    """Return what the page of an entry shows of it."""
    return _fields(row, BRIEF + DEFINITION)


def changes_of(source: Source, name: str) -> list[dict[str, Any]]:
    """Return the last changes of an entry, newest first, each with what it changed."""
    rows = schedules_of(source.app).history(name, limit=CHANGES + 1)
    return rows_of(view.CHANGES, compared(rows)[:CHANGES])


def _fields(row: Any, names: Sequence[str]) -> dict[str, Any]:
    return {name: _plain(getattr(row, name)) for name in names}


def _plain(value: Any) -> Any:
    """Return a value as a page shows it: an instant in microseconds, JSON as text."""
    if isinstance(value, datetime):
        return to_us(value)
    if isinstance(value, (dict, list)):
        text = json.dumps(value, ensure_ascii=False)
        return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    return value
