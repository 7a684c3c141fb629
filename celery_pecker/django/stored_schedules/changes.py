"""The changes of stored schedules: the user, and the fields that differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.utils import timezone

from celery_pecker.django.models import ScheduleChange
from celery_pecker.django.read_only_admin import ReadOnlyAdmin
from celery_pecker.django.stored_schedules.differences import differences

INSTANT = "%Y-%m-%d %H:%M:%S"
PARTS = (
    *("task", "schedule", "start", "end", "once", "args", "kwargs", "options"),
    *("policies", "run"),
)
"""Of a definition, in the order in which people look for them."""


@admin.register(ScheduleChange)
class ScheduleChangeAdmin(ReadOnlyAdmin):
    """Changes of schedules, newest first."""

    list_display = ("name", "change", "version", "changed_by", "at")
    list_filter = ("change",)
    search_fields = ("name", "changed_by")
    search_help_text = "Part of a schedule's name, or of the user's"
    window_order = ("-id",)
    fields = readonly_fields = (*list_display, "definition")

    @admin.display(description="changed at")
    def at(self, change: Any) -> str | None:
        """Return when it was changed."""
        return instant(change.changed_at)


def compared(changes: Sequence[Any]) -> list[dict[str, Any]]:
    """Return changes, newest first, each with what it made different."""
    rows: list[dict[str, Any]] = []
    before: dict[str, Any] = {}
    for change in reversed(changes):
        kept = change.definition
        after = None if kept is None else {part: kept.get(part) for part in PARTS}
        rows.append(
            {
                "change": change,
                "at": instant(change.changed_at),
                "differences": [] if after is None else differences(before, after),
            }
        )
        before = before if after is None else after
    return rows[::-1]


def instant(value: Any, form: str = INSTANT) -> str | None:
    """Return an instant in the time zone of the page."""
    return None if value is None else timezone.localtime(value).strftime(form)
