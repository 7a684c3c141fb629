"""In which state a message is, as a column and as a filter of the list."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import BigIntegerField, Case, F, Func, Q, TextField, Value, When
from django.db.models.functions import Coalesce, Now

from celery_pecker.django.models import OutboxBatch

STATES = ("waiting", "held", "later", "parked")
MOST_TASKS = 200
"""Names in the filter by task."""


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


class StateFilter(admin.SimpleListFilter):
    """Waiting, held, later or parked."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: Any, model_admin: Any) -> list[tuple[str, str]]:
        """Return the states."""
        del request, model_admin
        return [(state, state) for state in STATES]

    def queryset(self, request: Any, queryset: Any) -> Any:
        """Return the messages in the state; parked ones have an index."""
        del request
        if self.value() is None:
            return queryset
        if self.value() == "parked":
            return queryset.filter(parked_at__isnull=False)
        return queryset.filter(parked_at__isnull=True, state=self.value())


class TaskFilter(admin.SimpleListFilter):
    """Tasks of which there are messages, as far as they were counted."""

    title = "task"
    parameter_name = "task"

    def lookups(self, request: Any, model_admin: Any) -> list[tuple[str, str]]:
        """Return the names; one that was chosen stays."""
        names = [one.task for one in model_admin.summary(request).tasks[:MOST_TASKS]]
        chosen = self.used_parameters.get(self.parameter_name)
        if chosen and chosen not in names:
            names.append(chosen)
        return [(name, name) for name in sorted(names)]

    def has_output(self) -> bool:
        """Show it also where there is one task."""
        return True

    def queryset(self, request: Any, queryset: Any) -> Any:
        """Return the messages of the task."""
        del request
        return queryset.filter(task=self.value()) if self.value() else queryset
