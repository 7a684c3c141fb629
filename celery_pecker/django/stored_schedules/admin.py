"""Stored schedules in Django's admin: list, form, preview, history, actions."""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any
from zoneinfo import available_timezones

from django.contrib import admin, messages
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.db.models import Exists, F, Q
from django.http import HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.views.decorators.http import require_POST

from celery_pecker.django import databases
from celery_pecker.django.models import Schedule, ScheduleChange
from celery_pecker.django.read_only_admin import (
    MOST,
    MOST_TASKS,
    Bounded,
    ReadOnlyAdmin,
    TaskFilter,
    WordFilter,
    column,
)
from celery_pecker.django.stored_schedules import rows
from celery_pecker.django.stored_schedules.form import ScheduleForm, fieldsets
from celery_pecker.django.stored_schedules.rows import hot, readable
from celery_pecker.django.stored_schedules.store import Store, schedules
from celery_pecker.kernel.app_modules import load_app
from celery_pecker.kernel.errors import PeckerError
from celery_pecker.schedules.stored.form_fields import KINDS
from celery_pecker.surfaces.views.model import Act, Done
from celery_pecker.surfaces.views.schedules import ENTRIES, STORED, compared

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

    at = column("changed at", lambda change: instant(change.changed_at))


def instant(value: Any, form: str = INSTANT) -> str | None:
    """Return an instant in the time zone of the page."""
    return None if value is None else timezone.localtime(value).strftime(form)


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
        kind = self.value()
        return queryset.filter(schedule__has_key=kind) if kind else queryset


KEPT = 100
"""Changes that the page of a schedule shows: as many as there are."""
DAY = "%Y-%m-%d"


@cache
def zones() -> Sequence[str]:
    """Return the names of time zones that a browser offers."""
    return sorted(available_timezones())


def names() -> Sequence[str]:
    """Return the names of tasks that a browser offers: those of this process."""
    load_app(schedules().app)
    ours = [name for name in schedules().app.tasks if not name.startswith("celery.")]
    return sorted(filter(schedules().allowed, ours))


def action(act: Act) -> Any:
    """Return an act as an action of the list."""

    @admin.action(description=act.label, permissions=[act.permission])
    def does(model_admin: Any, request: Any, queryset: Any) -> None:
        model_admin.act(request, act, [one.name for one in queryset])

    does.__name__ = act.name
    return does


OFFERED = {"pecker_zones": zones, "pecker_names": names}


@admin.register(Schedule)
class ScheduleAdmin(Bounded):
    """Everything that is edited goes through `Schedules`, in the user's name."""

    change_form_template = "celery_pecker/schedule_form.html"
    change_list_template = "celery_pecker/schedule_list.html"
    list_display = (
        *("name", "task", "words", "state_shown", "next_run", "last_run", "who"),
    )
    list_filter = (TaskFilter, KindFilter, StateFilter)
    search_fields = ("name", "task")
    search_help_text = "Part of the name, or of the task's"
    window_order = ("name",)
    actions = tuple(action(act) for act in ENTRIES.acts)
    shown = (
        *("name", "task", "words", "state_shown", "problem", "next_run", "last_run"),
        *("schedule", "starts_at", "ends_at", "once", "args", "kwargs", "options"),
        *("policies", "run", "version", "changed"),
    )
    """Fieldsets for users that may only view."""

    class Media:
        """Shows the next runs while a user types."""

        js = ("celery_pecker/schedule.js",)
        css = {"all": ("celery_pecker/schedule.css",)}  # noqa: RUF012  # Django's form

    def require(self) -> None:
        """Raise ImproperlyConfigured where no Celery app is known."""
        schedules()

    def get_queryset(self, request: Any) -> Any:
        """Return the schedules that were not removed."""
        return rows.whole(super().get_queryset(request))

    def tasks(self, request: Any) -> list[str]:
        """Return the names of tasks that are stored, in order."""
        stored = Schedule.objects.using(databases.alias())
        stored = stored.filter(removed_at__isnull=True)
        names = stored.order_by("task").values_list("task", flat=True).distinct()
        return [*names[:MOST_TASKS]]

    # Columns

    words = column("schedule", lambda schedule: rows.row(schedule).words)
    problem = column("problem", lambda schedule: rows.row(schedule).problem)
    next_run = column("next run", lambda one: instant(rows.row(one).next_due))
    last_run = column("last run", lambda one: instant(rows.row(one).last_slot))
    who = column(
        "changed by", lambda one: f"{one.changed_by}, {instant(one.changed_at, DAY)}"
    )
    changed = column(
        "changed", lambda one: f"{one.changed_by}, {instant(one.changed_at)}"
    )

    @admin.display(description="state")
    def state_shown(self, schedule: Any) -> str:
        """Return the state; why, if there is a problem."""
        known = rows.row(schedule)
        state = known.state
        shown = f"{state}, paused" if known.paused and state == "problem" else state
        text = '<span class="pecker-state pecker-{}" title="{}">{}</span>'
        marked: str = format_html(text, state, known.problem or "", shown)
        return marked

    # The form

    def get_fieldsets(self, request: Any, obj: Any = None) -> Any:
        """Return the fields of the form; read-only for users that may only view."""
        if obj is None or self.has_change_permission(request, obj):
            return fieldsets(adding=obj is None)
        return [(None, {"fields": self.shown})]

    def get_form(
        self, request: Any, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        """Return the form, with whose edit it is."""
        if change and not self.has_change_permission(request, obj):
            return super().get_form(request, obj, change=change, **kwargs)
        asked = {
            "store": Store(request.user),
            "previewing": "_preview" in request.POST,
            "__module__": __name__,
        }
        return type("Form", (ScheduleForm,), asked)

    def render_change_form(self, request: Any, context: Any, **kwargs: Any) -> Any:
        """Show the form, with what a browser offers below its fields."""
        return super().render_change_form(request, OFFERED | context, **kwargs)

    def save_model(self, request: Any, obj: Any, form: Any, change: bool) -> None:
        """Do nothing: a valid form is written."""

    def response_change(self, request: Any, obj: Any) -> Any:
        """Go on at the page of a schedule that has another name by now."""
        reply = super().response_change(request, obj)
        if "_continue" in request.POST:
            return HttpResponseRedirect(self._address(obj.name))
        return reply

    def _address(self, name: str) -> str:
        view = f"admin:{self.opts.app_label}_{self.opts.model_name}_change"
        site = self.admin_site.name
        return str(reverse(view, args=[quote(name)], current_app=site))

    def delete_view(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Ask, and remove it."""
        view = super().delete_view
        return self._bounded(request, lambda: view(request, *args, **kwargs))

    def delete_model(self, request: Any, obj: Any) -> None:
        """Remove a schedule; its history stays for a day."""
        Store(request.user).remove(obj.name)

    def delete_queryset(self, request: Any, queryset: Any) -> None:
        """Remove the chosen schedules."""
        for obj in queryset:
            self.delete_model(request, obj)

    # Other pages

    def get_urls(self) -> list[Any]:
        """Return the addresses of the model, and those of preview and buttons."""
        name = f"{self.opts.app_label}_{self.opts.model_name}"

        def posted(view: Any) -> Any:
            return self.admin_site.admin_view(require_POST(view))

        ours = [
            path("preview/", posted(self.preview_view), name=f"{name}_preview"),
            path("<path:object_id>/act/", posted(self.act_view), name=f"{name}_act"),
        ]
        return [*ours, *super().get_urls()]

    def preview_view(self, request: Any) -> Any:
        """Show what a form would do: the next runs, or what is wrong."""
        if not (
            self.has_add_permission(request) or self.has_change_permission(request)
        ):
            raise PermissionDenied
        form = self.get_form(request)(request.POST)
        template = "celery_pecker/schedule_preview.html"
        return TemplateResponse(
            request, template, {"preview": form.preview, "zone": form.runs_zone}
        )

    def act_view(self, request: Any, object_id: str) -> Any:
        """Do what a button of the page of a schedule says, and show the page again."""
        if not self.has_change_permission(request):
            raise PermissionDenied
        name, word = unquote(object_id), request.POST.get("act", "")
        for act in ENTRIES.acts:
            if act.name == word:
                self.act(request, act, [name])
        return HttpResponseRedirect(self._address(name))

    def history_view(
        self, request: Any, object_id: str, extra_context: Any = None
    ) -> Any:
        """Show a schedule's changes and their users, also of a removed schedule."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        name = unquote(object_id)
        kept = ScheduleChange.objects.using(databases.alias()).filter(name=name)

        def view() -> Any:
            changes = compared([*kept.order_by("-id")[:KEPT]])
            context = {
                **self.admin_site.each_context(request),
                "title": f"Changes of {name}",
                "name": name,
                "there": self.get_queryset(request).filter(pk=name).exists(),
                "changes": changes,
                "opts": self.opts,
                "module_name": str(self.opts.verbose_name_plural).capitalize(),
                **(extra_context or {}),
            }
            template = "celery_pecker/schedule_history.html"
            return TemplateResponse(request, template, context).render()

        return self._bounded(request, view)

    # Actions

    def act(self, request: Any, act: Act, names: Sequence[str]) -> None:
        """Do something to schedules by their names, and tell what came of it."""
        rows = self.get_queryset(request).filter(pk__in=names, by_code=False)
        store = Store(request.user, only={*rows.values_list("pk", flat=True)})
        try:
            done = act.do(store, names, store.by, STORED)
        except PeckerError as error:
            done = Done((), [f"Not done for {', '.join(names)}: {error}"])
        for sentence in done.refused:
            self.message_user(request, sentence, messages.ERROR)
        for sentence in done.said:
            self.message_user(request, sentence)
