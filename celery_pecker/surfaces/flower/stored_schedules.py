"""What pages know of stored schedules: rows, changes, and whether people may edit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from celery_pecker.kernel.clock import to_us
from celery_pecker.surfaces.flower.pages import Source

if TYPE_CHECKING:
    from celery import Celery

    from celery_pecker.schedules import Change, ScheduleRow, Schedules

CHANGES = 30
"""Of one schedule, the newest."""
LONGEST = 200
"""Characters of a value in the list of changes."""
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
    from celery_pecker.schedules import Schedules  # noqa: PLC0415  # loads psycopg

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
    return {
        "words": row.words,
        "version": row.version,
        "problem": row.problem,
        "by_code": row.declared_by_code,
        "done": row.done,
        "changed": to_us(row.changed_at),
        "by": row.changed_by,
    }


def full(row: ScheduleRow) -> dict[str, Any]:
    """Return what the page of an entry shows of it."""
    return {
        **brief(row),
        "args": _text(row.args),
        "kwargs": _text(row.kwargs),
        "options": _text(row.options),
        "schedule": _text(row.schedule),
        "policies": _text(row.policies),
        "start": _us(row.start),
        "end": _us(row.end),
        "created": to_us(row.created_at),
    }


def changes_of(source: Source, name: str) -> list[dict[str, Any]]:
    """Return the last changes of an entry, newest first, each with what it changed."""
    rows = schedules_of(source.app).history(name, limit=CHANGES + 1)
    return changes(rows)[:CHANGES]


def changes(rows: Sequence[Change]) -> list[dict[str, Any]]:
    """Return changes, newest first, with what each has changed. Pure."""
    return [
        {
            "id": str(row.id),
            "version": row.version,
            "change": row.change,
            "other": row.other_name,
            "gone": row.definition is None,
            "at": to_us(row.changed_at),
            "by": row.changed_by,
            "fields": differences(_before(rows[nth + 1 :]), row.definition),
        }
        for nth, row in enumerate(rows)
    ]


def differences(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> list[dict[str, str]]:
    """Return the fields in which two definitions differ; none if one is not known."""
    if before is None or after is None:
        return []
    return [
        {"field": key, "before": _text(before.get(key)), "after": _text(after.get(key))}
        for key in {**before, **after}
        if before.get(key) != after.get(key)
    ]


def _before(older: Iterable[Change]) -> Mapping[str, Any] | None:
    return next((row.definition for row in older if row.definition is not None), None)


def _text(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _us(at: datetime | None) -> int | None:
    return None if at is None else to_us(at)
