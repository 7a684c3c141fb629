"""What Django's admin shows: the outbox, and stored schedules."""

from collections.abc import Iterator
from functools import reduce
from operator import attrgetter, or_
from typing import Any
from urllib.parse import parse_qs, urlencode

from django.contrib import admin
from django.db.models import BigIntegerField, Case, F, Func, Q, TextField, Value, When
from django.db.models.functions import Coalesce, Now
from django.http import Http404

from celery_pecker.django import arguments, databases
from celery_pecker.django.models import OutboxBatch, OutboxDone, OutboxMessage
from celery_pecker.django.read_only_admin import (
    MOST_TASKS,
    ReadOnlyAdmin,
    TaskFilter,
    WordFilter,
    column,
)
from celery_pecker.django.stored_schedules.admin import (
    ScheduleAdmin,
    ScheduleChangeAdmin,
)
from celery_pecker.outbox.model import mode_name
from celery_pecker.outbox.overview import OutboxOverview, OutboxSummary
from celery_pecker.surfaces.views.model import HIDDEN
from celery_pecker.surfaces.views.outbox import MESSAGES

__all__ = [
    "OutboxDoneAdmin",
    "OutboxMessageAdmin",
    "ScheduleAdmin",
    "ScheduleChangeAdmin",
]

PARAMETER = "outbox"
PRESERVED = "_changelist_filters"
"""Where links of Django's lists keep the filters of the list."""


def chosen(query: Any) -> str:
    """Return the name of the outbox that an address chooses; default the first.

    Raises:
        Http404: there is none of this name.
    """
    known = databases.outboxes()
    filters = parse_qs(query.get(PRESERVED, ""))
    name = query.get(PARAMETER) or (filters.get(PARAMETER) or [next(iter(known))])[0]
    if name not in known:
        raise Http404(f"no outbox is named {name!r}; there are {', '.join(known)}")
    return str(name)


def kept(query: Any) -> str:
    """Return the beginning of a link to the same outbox; empty for the first."""
    name = chosen(query)
    if name == next(iter(databases.outboxes())):
        return ""
    return f"{urlencode({PARAMETER: name})}&"


class OneOutboxMixin:
    """Lists and pages of the outbox that the address chooses."""

    search_fields: tuple[str, ...]

    def alias(self, request: Any) -> str:
        """Return the alias of the outbox's database."""
        return databases.outboxes()[chosen(request.GET)]

    def get_search_results(
        self, request: Any, queryset: Any, search_term: str
    ) -> tuple[Any, bool]:
        """Return the rows of an id or key: whole, since a key may have blanks."""
        term = search_term.replace("\0", "").strip()
        whole = [Q(**{field: term}) for field in self.search_fields]
        return (queryset.filter(reduce(or_, whole)) if term else queryset), False


class OutboxFilter(admin.SimpleListFilter):
    """A choice of the outbox; there is no list of all."""

    title = "outbox"
    parameter_name = PARAMETER

    def lookups(self, request: Any, model_admin: Any) -> list[tuple[str, str]]:
        """Return the names of the outboxes."""
        return [(name, name) for name in databases.outboxes()]

    def has_output(self) -> bool:
        """Show it where there is a choice."""
        return len(self.lookup_choices) > 1

    def choices(self, changelist: Any) -> Iterator[dict[str, Any]]:
        """Yield a link for each; the first is that of an address without a choice."""
        first = self.lookup_choices[0][0]
        for name, title in self.lookup_choices:
            yield {
                "selected": (self.value() or first) == name,
                "query_string": changelist.get_query_string({PARAMETER: name}),
                "display": title,
            }

    def queryset(self, request: Any, queryset: Any) -> Any:
        """Return the rows: they come from the outbox already."""
        return queryset


def with_state(rows: Any) -> Any:
    """Return the messages with `state` and `due`, by the database's clock."""
    batches = OutboxBatch.objects.using(rows.db)
    ids = Func("ids", function="unnest", output_field=BigIntegerField())
    taken = batches.annotate(one=ids).values("one")
    running = Q(running=True, held_until__gt=Now())
    state = Case(
        When(parked_at__isnull=False, then=Value("parked")),
        When(running | Q(id__in=taken), then=Value("held")),
        When(pushes__gt=0, then=Value("waiting")),  # its message is in the broker
        When(due_at__gt=Now(), then=Value("later")),
        default=Value("waiting"),
        output_field=TextField(),
    )
    due = Case(
        When(pushes__gt=0, then=F("held_at")),  # when it was sent last
        default=Coalesce("due_at", "created_at"),
    )
    return rows.annotate(state=state, due=due)


class StateFilter(WordFilter):
    """Waiting, held, later or parked."""

    title = "state"
    parameter_name = "state"
    words = tuple(MESSAGES.states)

    def queryset(self, request: Any, queryset: Any) -> Any:
        """Return the messages in the state; parked ones have an index."""
        if self.value() is None:
            return queryset
        if self.value() == "parked":
            return queryset.filter(parked_at__isnull=False)
        return queryset.filter(parked_at__isnull=True, state=self.value())


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

    def summary(self, request: Any) -> OutboxSummary:
        """Return the counts of all tasks; read once for a page."""
        known: OutboxSummary | None = getattr(request, "pecker_summary", None)
        if known is None:
            known = request.pecker_summary = OutboxOverview(
                self.tables(request)
            ).summary()
        return known

    def tasks(self, request: Any) -> list[str]:
        """Return the tasks of which there are messages, as far as they were counted."""
        return [one.task for one in self.summary(request).tasks[:MOST_TASKS]]

    def changelist_view(self, request: Any, extra_context: Any = None) -> Any:
        """Show the counts above the list."""
        context = {
            "summary": lambda: self.summary(request),
            "pecker_outbox": kept(request.GET),
            **(extra_context or {}),
        }
        return super().changelist_view(request, context)

    state = column("state", attrgetter("state"))
    due = column("due", attrgetter("due"))
    # The name of the mode; of a newer version's, its number
    mode_shown = column("mode", lambda message: mode_name(message.mode))
    attempts = column("attempts", lambda message: message.attempt or 0)
    error = column("error", lambda message: (message.last_error or "")[:SHORT])

    @admin.display
    def arguments(self, message: Any) -> str:
        """Return the arguments as text; pickle is not decoded."""
        if not databases.shows_arguments():
            return HIDDEN
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
