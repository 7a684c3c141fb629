"""Entries that stand beside their task, and two different entries of one name."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from celery import Celery
from celery.beat import ScheduleEntry
from celery.schedules import BaseSchedule, solar

from celery_pecker.kernel.errors import Misconfigured

_KEY = "_pecker_duplicates"


def record_duplicates() -> None:
    """Remember when ``add_periodic_task`` replaces an entry by a different one.

    Celery lets the second silently win. Called once by the command line, before the
    app is loaded; it only looks on.
    """
    celery: Any = Celery  # what it has no event for is not in its types either
    original = celery._add_periodic_task  # noqa: SLF001
    if getattr(original, "watches", False):
        return

    def watching(
        self: Any, key: str, entry: Mapping[str, Any], name: str | None = None
    ) -> None:
        before = self._conf.beat_schedule.get(key)
        if before is not None and not is_same_entry(before, entry):
            note_duplicate(self, key)
        original(self, key, entry, name=name)

    watching.watches = True  # type: ignore[attr-defined]
    celery._add_periodic_task = watching  # noqa: SLF001


def note_duplicate(app: Any, name: str) -> None:
    """Remember that the app has two different entries of that name."""
    app.__dict__.setdefault(_KEY, []).append(name)


def refuse_duplicates(app: Celery) -> None:
    """Refuse an app in which two different entries have one name."""
    duplicates = app.__dict__.get(_KEY, [])
    if duplicates:
        raise Misconfigured(
            f"beat_schedule has two different entries named {duplicates[0]!r}: the"
            " second would silently replace the first; give one of them another name"
        )


def is_same_entry(
    one: Mapping[str, Any] | ScheduleEntry, other: Mapping[str, Any] | ScheduleEntry
) -> bool:
    """Return whether both would send the same message at the same instants."""
    first, second = _compared(one), _compared(other)
    return _same_schedule(first.pop("schedule"), second.pop("schedule")) and all(
        first[key] == second[key] or repr(first[key]) == repr(second[key])
        for key in first
    )


def _compared(entry: Mapping[str, Any] | ScheduleEntry) -> dict[str, Any]:
    fields = vars(entry) if isinstance(entry, ScheduleEntry) else dict(entry)
    return {
        "schedule": fields.get("schedule"),
        "relative": bool(fields.get("relative")),
        "task": fields.get("task"),
        "args": [*(fields.get("args") or ())],
        "kwargs": dict(fields.get("kwargs") or {}),
        "options": dict(fields.get("options") or {}),
        "pecker": fields.get("pecker"),
    }


def _same_schedule(one: object, other: object) -> bool:
    """Compare schedules; BaseSchedule's own ``==`` knows no fields of subclasses."""
    if isinstance(one, (int, float)):
        one = timedelta(seconds=one)
    if isinstance(other, (int, float)):
        other = timedelta(seconds=other)
    if type(one) is not type(other):
        return False
    if isinstance(one, BaseSchedule) and not isinstance(one, solar):
        return _fields(one) == _fields(other)
    return one == other


def _fields(schedule: object) -> dict[str, object]:
    derived = {"_app", "tz", "utc_enabled"}
    return {key: it for key, it in vars(schedule).items() if key not in derived}


_TIED = "_pecker_tied"
_OWN = "_pecker_beat_schedule"
"""The app's ``beat_schedule``, if no other code has set one."""


def add_entry(app: Any, name: str, entry: Mapping[str, Any]) -> None:
    """Enter it in the app's ``beat_schedule``, now and whenever that is read."""
    tied: list[tuple[str, Mapping[str, Any]]] = app.__dict__.setdefault(_TIED, [])
    if not any(key == name and is_same_entry(known, entry) for key, known in tied):
        tied.append((name, entry))
    _enter(app, name, entry)


def add_entries(app: Any) -> None:
    """Add the entries again: other code may have set a new ``beat_schedule``."""
    for name, entry in app.__dict__.get(_TIED, ()):
        _enter(app, name, entry)


def _enter(app: Any, name: str, entry: Mapping[str, Any]) -> None:
    entries = app.conf.beat_schedule
    if not isinstance(entries, Mapping):
        return  # refused when a scheduler reads it: every command finalizes the app
    before = entries.get(name)
    if before is None:
        # Not into the dict itself: apps that are configured by the same module share
        # it, and the other one may not know the task.
        if app.__dict__.get(_OWN) is not entries:
            entries = app.__dict__[_OWN] = dict(entries)
            app.conf.beat_schedule = entries
        entries[name] = dict(entry)
    elif isinstance(before, Mapping | ScheduleEntry) and not is_same_entry(
        before, entry
    ):
        note_duplicate(app, name)
