"""Filters of the list of stored schedules."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import messages
from django.db.models import Exists, F, Q

from celery_pecker.django.read_only_admin import MOST, WordFilter
from celery_pecker.django.stored_schedules.rows import hot, readable
from celery_pecker.schedules.stored.form_fields import KINDS

EXAMINED = 5_000
"""Different schedules that are read for those with a problem: only reading shows it,
and of many thousands most are alike."""
CHUNK = 2_000
CUT = (
    "Only the first {read:,} different schedules were read for problems, up to"
    " {name!r}: choose a task or a kind to see those behind it."
)
_DONE = Q(once=True, once_at__lte=F("executed_at"))


class StateFilter(WordFilter):
    """Active, paused, done (a single run that is over), or with a problem."""

    title = "state"
    parameter_name = "state"
    words = ("active", "paused", "done", "problem")

    def queryset(self, request: Any, queryset: Any) -> Any:
        """Return the schedules in the state."""
        paused = Exists(hot(paused=True))
        if self.value() == "problem":
            bad = unreadable(request, queryset)
            return queryset.filter(Q(by_code=True) | Q(pk__in=bad))
        if self.value() == "paused":
            return queryset.filter(paused).exclude(_DONE)
        if self.value() == "done":
            return queryset.filter(_DONE)
        if self.value() == "active":
            return queryset.exclude(paused).exclude(_DONE)
        return queryset


def unreadable(request: Any, queryset: Any) -> list[str]:
    """Return the schedules that cannot be read, by name; say if not all were read."""
    columns = ("schedule", "policies", "run", "starts_at", "ends_at")
    rows = queryset.order_by("name").values_list("pk", *columns, "once", "once_at")
    known: dict[str, bool] = {}
    bad: list[str] = []
    for name, *parts, once, once_at in rows.iterator(chunk_size=CHUNK):
        parts.append(once_at if once else None)
        key = json.dumps(parts, default=str, sort_keys=True)
        if key not in known:
            if len(known) == EXAMINED:
                messages.warning(request, CUT.format(read=EXAMINED, name=name))
                break
            known[key] = readable(*parts)
        if not known[key]:
            bad.append(name)
        if len(bad) > MOST:
            break  # the list says that there are more
    return bad


class KindFilter(WordFilter):
    """By the one key that names the kind of a schedule."""

    title = "kind"
    parameter_name = "kind"
    words = tuple(kind for kind in KINDS if kind != "json")

    def queryset(self, request: Any, queryset: Any) -> Any:
        """Return the schedules of the kind."""
        del request
        return (
            queryset.filter(schedule__has_key=self.value())
            if self.value()
            else queryset
        )
