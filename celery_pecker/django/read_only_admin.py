"""Admins of our tables: cheap on a deep table, and by default only to be looked at."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import ImproperlyConfigured
from django.db import Error
from django.http import HttpResponseRedirect
from django.urls import reverse

from celery_pecker.django import databases
from celery_pecker.django.databases import SECONDS, Alias
from celery_pecker.kernel.errors import PeckerError

MOST = 1_000
"""Rows of a list; filters lead to the others."""
MOST_TASKS = 200
"""Names in the filter by task."""
UNREAD = (
    "The tables of celery-pecker cannot be used: {error}. They are looked for in"
    " schema {schema!r} of the database {alias!r} (PECKER_ADMIN_SCHEMA,"
    " PECKER_ADMIN_DATABASE), made by `celery -A proj pecker migrate`, and a statement"
    " ends after {seconds} s."
)


def column(label: str, read: Callable[[Any], Any]) -> Any:
    """Return a column of a list, or a field of a page, that is read from a row."""

    @admin.display(description=label)
    def shown(_: Any, row: Any) -> Any:
        return read(row)

    return shown


class WordFilter(admin.SimpleListFilter):
    """A choice of one of a few words."""

    words: tuple[str, ...] = ()

    def lookups(self, request: Any, model_admin: Any) -> list[tuple[str, str]]:
        """Return the words."""
        return [(word, word) for word in self.words]


class TaskFilter(admin.SimpleListFilter):
    """The tasks that the admin names by its `tasks`, `MOST_TASKS` at most."""

    title = "task"
    parameter_name = "task"

    def lookups(self, request: Any, model_admin: Any) -> list[tuple[str, str]]:
        """Return the names; one that was chosen stays."""
        chosen = self.used_parameters.get(self.parameter_name)
        names = {*model_admin.tasks(request), *([chosen] if chosen else [])}
        return [(name, name) for name in sorted(names)]

    def has_output(self) -> bool:
        """Show it also where there is one task."""
        return True

    def queryset(self, request: Any, queryset: Any) -> Any:
        """Return the rows of the task."""
        return queryset.filter(task=self.value()) if self.value() else queryset


class Window(ChangeList):
    """The first rows of what was asked for: never all of a table is counted."""

    full = False
    """Whether there are rows behind the window."""

    def get_queryset(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the rows of the window, in its order."""
        asked = super().get_queryset(request, *args, **kwargs)
        keys = self.model_admin.window(asked, MOST + 1)
        self.full = len(keys) > MOST
        order = self.model_admin.window_order
        return self.root_queryset.filter(pk__in=keys[:MOST]).order_by(*order)


class Bounded(admin.ModelAdmin):
    """Shows rows of one database, within a few seconds for each statement."""

    list_per_page = 100
    show_full_result_count = False
    if hasattr(admin, "ShowFacets"):  # from Django 5.0 on: they count all rows
        show_facets = admin.ShowFacets.NEVER
    sortable_by = ()
    window_order: tuple[Any, ...] = ()

    def window(self, asked: Any, most: int) -> list[int]:
        """Return the keys of the first rows that were asked for."""
        keys = asked.order_by(*self.window_order).values_list("pk", flat=True)
        return [*keys[:most]]

    def alias(self, request: Any) -> str:
        """Return the alias of the database that a request is about."""
        return databases.alias()

    def tables(self, request: Any) -> Alias:
        """Return where the tables are."""
        return Alias(self.alias(request), databases.schema())

    def get_queryset(self, request: Any) -> Any:
        """Return all rows, from the database that has the tables."""
        return super().get_queryset(request).using(self.alias(request))

    def get_changelist(self, request: Any, **kwargs: Any) -> type[ChangeList]:
        """Return the class of the list."""
        return Window

    def changelist_view(self, request: Any, extra_context: Any = None) -> Any:
        """Show the list, looked for within a few seconds."""
        view = super().changelist_view
        return self._bounded(request, lambda: view(request, extra_context))

    def changeform_view(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Show a row."""
        view = super().changeform_view
        return self._bounded(request, lambda: view(request, *args, **kwargs))

    def require(self) -> None:
        """Raise ImproperlyConfigured or PeckerError if the pages cannot be shown."""

    def _bounded(self, request: Any, view: Callable[[], Any]) -> Any:
        tables = self.tables(request)
        try:
            with tables.bounded():
                self.require()
                return view()
        except (Error, ImproperlyConfigured, PeckerError) as error:
            known = UNREAD if isinstance(error, Error) else "{error}"
            text = known.format(
                error=" ".join(str(error).split()),
                schema=tables.schema,
                alias=tables.alias,
                seconds=SECONDS,
            )
            self.message_user(request, text, messages.ERROR)
            index = reverse("admin:index", current_app=self.admin_site.name)
            return HttpResponseRedirect(index)


class ReadOnlyAdmin(Bounded):
    """Shows rows; nothing can be added, changed or deleted."""

    actions = None

    def has_add_permission(self, request: Any, obj: Any = None) -> bool:
        """Return False: the page is read-only."""
        return False

    has_change_permission = has_delete_permission = has_add_permission
