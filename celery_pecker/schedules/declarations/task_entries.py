"""Entries that stand beside their task: an app's ``beat_schedule`` has them too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from celery.beat import ScheduleEntry

from celery_pecker.schedules.declarations.duplicates import (
    is_same_entry,
    note_duplicate,
)

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
