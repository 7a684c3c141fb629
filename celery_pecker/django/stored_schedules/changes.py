"""The changes of stored schedules: the user, and the fields that differ."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.utils import timezone

from celery_pecker.django.models import ScheduleChange
from celery_pecker.django.read_only_admin import ReadOnlyAdmin

INSTANT = "%Y-%m-%d %H:%M:%S"


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


def instant(value: Any, form: str = INSTANT) -> str | None:
    """Return an instant in the time zone of the page."""
    return None if value is None else timezone.localtime(value).strftime(form)
