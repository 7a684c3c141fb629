"""Which outbox of several a page of the admin shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlencode

from django.contrib import admin
from django.http import Http404

from celery_pecker.django import databases

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
        message = f"no outbox is named {name!r}; there are {', '.join(known)}"
        raise Http404(message)
    return str(name)


def kept(query: Any) -> str:
    """Return the beginning of a link to the same outbox; empty for the first."""
    name = chosen(query)
    if name == next(iter(databases.outboxes())):
        return ""
    return f"{urlencode({PARAMETER: name})}&"


class OneOutboxMixin:
    """Lists and pages of the outbox that the address chooses."""

    def alias(self, request: Any) -> str:
        """Return the alias of the outbox's database."""
        return databases.outboxes()[chosen(request.GET)]


class OutboxFilter(admin.SimpleListFilter):
    """A choice of the outbox; there is no list of all."""

    title = "outbox"
    parameter_name = PARAMETER

    def lookups(self, request: Any, model_admin: Any) -> list[tuple[str, str]]:
        """Return the names of the outboxes."""
        del request, model_admin
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
        del request
        return queryset
