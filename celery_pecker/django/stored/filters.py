"""Filters of the list of stored schedules."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Exists, F, Q

from celery_pecker.django.stored.rows import hot, row
from celery_pecker.stored.fields import KINDS

STATES = ("active", "paused", "done", "problem")
MOST_TASKS = 200
"""Names in the filter by task."""
EXAMINED = 5_000
"""Schedules that are read for those with a problem: only reading shows it."""
_DONE = Q(once=True, once_at__lte=F("executed_at"))


class StateFilter(admin.SimpleListFilter):
    """Active, paused, done (a single run that is over), or with a problem."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: Any, model_admin: Any) -> list[tuple[str, str]]:
        """Return the states."""
        del request, model_admin
        return [(state, state) for state in STATES]

    def queryset(self, request: Any, queryset: Any) -> Any:
        """Return the schedules in the state."""
        del request
        paused = Exists(hot(paused=True))
        if self.value() == "problem":
            some = queryset.order_by("name")[:EXAMINED]
            bad = [one.pk for one in some if row(one).problem is not None]
            return queryset.filter(pk__in=bad)
        if self.value() == "paused":
            return queryset.filter(paused).exclude(_DONE)
        if self.value() == "done":
            return queryset.filter(_DONE)
        if self.value() == "active":
            return queryset.exclude(paused).exclude(_DONE)
        return queryset


class KindFilter(admin.SimpleListFilter):
    """By the one key that names the kind of a schedule."""

    title = "kind"
    parameter_name = "kind"

    def lookups(self, request: Any, model_admin: Any) -> list[tuple[str, str]]:
        """Return the kinds."""
        del request, model_admin
        return [(kind, kind) for kind in KINDS if kind != "json"]

    def queryset(self, request: Any, queryset: Any) -> Any:
        """Return the schedules of the kind."""
        del request
        return (
            queryset.filter(schedule__has_key=self.value())
            if self.value()
            else queryset
        )


class TaskFilter(admin.SimpleListFilter):
    """Tasks that are stored; those of the first names where there are very many."""

    title = "task"
    parameter_name = "task"

    def lookups(self, request: Any, model_admin: Any) -> list[tuple[str, str]]:
        """Return the names; one that was chosen stays."""
        names = {*model_admin.tasks(request)}
        chosen = self.used_parameters.get(self.parameter_name)
        return [
            (name, name) for name in sorted(names | ({chosen} if chosen else set()))
        ]

    def has_output(self) -> bool:
        """Show it also where there is one task."""
        return True

    def queryset(self, request: Any, queryset: Any) -> Any:
        """Return the schedules of the task."""
        del request
        return queryset.filter(task=self.value()) if self.value() else queryset
