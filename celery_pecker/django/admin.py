"""What Django's admin shows: the outbox, and stored schedules."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import F, Q

from celery_pecker.django import arguments
from celery_pecker.django.models import OutboxDone, OutboxMessage
from celery_pecker.django.outboxes import OneOutboxMixin, OutboxFilter, kept
from celery_pecker.django.read_only_admin import ReadOnlyAdmin
from celery_pecker.django.states import StateFilter, TaskFilter, with_state
from celery_pecker.django.stored_schedules.admin import ScheduleAdmin
from celery_pecker.django.stored_schedules.changes import ScheduleChangeAdmin
from celery_pecker.outbox.model import mode_name
from celery_pecker.outbox.overview import Overview, Summary

__all__ = [
    "OutboxDoneAdmin",
    "OutboxMessageAdmin",
    "ScheduleAdmin",
    "ScheduleChangeAdmin",
]

SHORT = 120
"""Characters of an error in the list."""


@admin.register(OutboxMessage)
class OutboxMessageAdmin(OneOutboxMixin, ReadOnlyAdmin):
    """What waits, is held or parked; counts of each task stand above."""

    change_list_template = "celery_pecker/outbox_list.html"
    list_display = (
        "id",
        "task",
        "state",
        "mode_shown",
        "attempts",
        "due",
        "created_at",
        "dedupe_key",
        "error",
    )
    list_filter = (OutboxFilter, StateFilter, TaskFilter, "mode")
    search_fields = ("task_id", "dedupe_key")
    search_help_text = "The id of a task, or a dedupe_key, as a whole"
    window_order = (F("attempt").desc(nulls_last=True), "id")
    fields = readonly_fields = (
        *("id", "task", "task_id", "state", "mode_shown", "attempts"),
        *("due", "created_at", "held_until", "parked_at", "last_error"),
        *("dedupe_key", "exchange", "routing_key", "priority"),
        *("content_type", "content_encoding", "arguments"),
    )

    def get_queryset(self, request: Any) -> Any:
        """Return messages with their state; what is large comes with one of them."""
        return with_state(super().get_queryset(request)).defer("body", "headers")

    def window(self, asked: Any, most: int) -> list[int]:
        """Return the first: those with the most attempts, then the oldest.

        Each half walks an index; one order for both would sort the whole table.
        """
        tried = asked.filter(attempt__gt=0).order_by("-attempt", "id")
        keys = [*tried.values_list("pk", flat=True)[:most]]
        untried = asked.filter(Q(attempt__isnull=True) | Q(attempt=0)).order_by("id")
        return [*keys, *untried.values_list("pk", flat=True)[: most - len(keys)]]

    def get_search_results(
        self, request: Any, queryset: Any, search_term: str
    ) -> tuple[Any, bool]:
        """Return the messages of an id or key: whole, since a key may have blanks."""
        del request
        term = search_term.replace("\0", "").strip()
        if not term:
            return queryset, False
        return queryset.filter(Q(task_id=term) | Q(dedupe_key=term)), False

    def summary(self, request: Any) -> Summary:
        """Return the counts of all tasks; read once for a page."""
        known: Summary | None = getattr(request, "pecker_summary", None)
        if known is None:
            known = request.pecker_summary = Overview(self.tables(request)).summary()
        return known

    def changelist_view(self, request: Any, extra_context: Any = None) -> Any:
        """Show the counts above the list."""
        context = {
            "summary": lambda: self.summary(request),
            "pecker_outbox": kept(request.GET),
            **(extra_context or {}),
        }
        return super().changelist_view(request, context)

    @admin.display
    def state(self, message: Any) -> str:
        """Return the state."""
        return str(message.state)

    @admin.display
    def due(self, message: Any) -> Any:
        """Return when it is or was due."""
        return message.due

    @admin.display(description="mode")
    def mode_shown(self, message: Any) -> str:
        """Return the name of the mode; of a newer version's, its number."""
        return mode_name(message.mode)

    @admin.display
    def attempts(self, message: Any) -> int:
        """Return how many runs have started."""
        return message.attempt or 0

    @admin.display
    def error(self, message: Any) -> str:
        """Return the beginning of the last error."""
        return (message.last_error or "")[:SHORT]

    @admin.display
    def arguments(self, message: Any) -> str:
        """Return the arguments as text; pickle is not decoded."""
        return arguments.shown(
            bytes(message.body),
            content_type=message.content_type,
            encoding=message.content_encoding,
            headers=message.headers,
        )


@admin.register(OutboxDone)
class OutboxDoneAdmin(OneOutboxMixin, ReadOnlyAdmin):
    """What was done lately, of modes until_done and local."""

    list_display = (
        *("message", "task", "task_id", "attempt", "emergency"),
        *("created_at", "done_at"),
    )
    list_filter = (OutboxFilter, "emergency")
    search_fields = ("task_id",)
    search_help_text = "The id of a task, as a whole"
    window_order = ("-number",)
    fields = readonly_fields = ("number", *list_display)

    def get_search_results(
        self, request: Any, queryset: Any, search_term: str
    ) -> tuple[Any, bool]:
        """Return what was done of a task's id."""
        del request
        term = search_term.replace("\0", "").strip()
        return (queryset.filter(task_id=term) if term else queryset), False
