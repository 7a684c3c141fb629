"""The form of a stored schedule: its fields, its checks, and the edit itself."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import tzinfo
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from django import forms
from django.contrib.admin.widgets import AdminTextareaWidget, AdminTextInputWidget

from celery_pecker.django.models import Schedule
from celery_pecker.django.stored_schedules.rows import row
from celery_pecker.django.stored_schedules.store import Store, schedules
from celery_pecker.kernel.errors import InvalidField, PeckerError, VersionConflict
from celery_pecker.schedules.declarations.reading import STORED
from celery_pecker.schedules.stored import fields
from celery_pecker.schedules.stored.fields import Preview
from celery_pecker.schedules.stored.form_fields import FIELDS, NAMES, Field
from celery_pecker.schedules.stored.model import ScheduleRow
from celery_pecker.surfaces.views.schedules import Difference, differences

LISTS = {"task": "pecker-names", "zone": "pecker-zones"}
"""Lists of the page that a browser offers below a field."""
RENAMES = "Another name renames it: last run, pause and history stay with it"
FIELDSETS = (
    (None, {"fields": ["name", "task"]}),
    ("When", {"fields": ["kind", "value", "zone", ("start", "end"), "once"]}),
    (
        "When, in detail",
        {"classes": ["collapse"], "fields": ["calendar", "days", ("jitter", "splay")]},
    ),
    ("What the task gets", {"fields": ["args", "kwargs", "options"]}),
    (
        "Policies",
        {"classes": ["collapse"], "fields": ["timeout", "run", *STORED[1:]]},
    ),
)
LAST = ("paused", "version")


class Conflict(NamedTuple):
    """An edit of another user that was saved first."""

    stored: ScheduleRow | None
    """What is stored now; None: it was removed."""
    differences: list[Difference]
    """Between what is stored and the form."""


class ScheduleForm(forms.ModelForm):
    """Texts of all fields; a valid form has been written when it was checked.

    Its fields are those of ``celery_pecker.schedules.stored.fields``, none is a column.
    The edit is the last check: that code declares the name, or that the version is
    another one by now, is known to the tables only.
    """

    data: Any
    store: Store
    previewing: bool = False
    """Whether nothing is to be written."""

    class Meta:
        """None of its columns is written by the form."""

        model = Schedule
        fields: tuple[str, ...] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        instance = kwargs.get("instance")
        self.known: ScheduleRow | None = None if instance is None else row(instance)
        if self.known is not None:
            kwargs["initial"] = {**texts(self.known), **kwargs.get("initial", {})}
        super().__init__(*args, **kwargs)
        self.fields.update({one.name: _field(one) for one in FIELDS})
        self.conflict: Conflict | None = None
        if self.known is None:
            self.fields["version"].initial = "0"
        else:
            # Pausing is no edit of the definition, and the page may be an old one.
            del self.fields["paused"]
            self.fields["name"].help_text = RENAMES

    def is_valid(self) -> bool:
        """Return whether the edit was written; a preview never is."""
        return super().is_valid() and not self.previewing

    @property
    def state(self) -> str:
        """Return in which state the schedule is."""
        return "" if self.known is None else self.known.state

    @property
    def preview(self) -> Preview | None:
        """What the form would do; None as long as it is empty."""
        asked = self._asked()
        return fields.preview(schedules(), asked) if asked else None

    @property
    def runs_zone(self) -> tzinfo:
        """The time zone in which the schedule is meant; `form.zone` is its field."""
        try:
            return ZoneInfo(self._asked().get("zone", ""))
        except (LookupError, OSError, ValueError):
            app: Any = schedules().app
            return app.timezone  # type: ignore[no-any-return]

    def _asked(self) -> dict[str, str]:
        """Return the texts of the form as they stand there; none of an empty one."""
        if self.is_bound:
            return {name: str(self[name].value() or "") for name in self.fields}
        return {} if self.known is None else texts(self.known)

    def _post_clean(self) -> None:
        """Check the whole form and write it; errors go to their fields."""
        if self.errors:
            return
        with self._refusals():
            asked = {name: _text(value) for name, value in self.cleaned_data.items()}
            options = fields.arguments(asked, zone=schedules().app.timezone)
            old = None if self.known is None else self.known.name
            if old is not None and old.strip() == options["name"]:
                options["name"] = old  # a field reads it without its blanks
            # A user that may only add changes nothing, whatever the request contains.
            adding = self.known is None
            options["version"] = 0 if adding else options.get("version", 0)
            if self.previewing:
                return
            try:
                if old is None:
                    self.store.set(**options)
                else:
                    self.store.change(old, **options)
                self.instance.name = options["name"]
            except VersionConflict as error:
                self._conflict(error, asked)

    def _conflict(self, error: VersionConflict, asked: dict[str, str]) -> None:
        stored = self.store.get(error.name)
        if self.known is None:
            self.add_error(
                "name", f"{error.name!r} exists already; choose another name"
            )
            return
        # A user that has seen the other edit and saves again means to replace it.
        self.data = self.data.copy()
        self.data[self.add_prefix("version")] = str(error.actual)
        theirs = {} if stored is None else {**texts(stored), "version": ""}
        mine = {**asked, "version": ""}
        theirs = {name: value for name, value in theirs.items() if name in mine}
        self.conflict = Conflict(stored, differences(theirs, mine))
        self.add_error(None, _words(error, stored))

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except InvalidField as error:
            field = fields.form_field(error)
            self.add_error(field if field in self.fields else None, str(error))
        except PeckerError as error:
            self.add_error(None, str(error))


def _words(error: VersionConflict, stored: ScheduleRow | None) -> str:
    yours = f"Your form is for version {error.expected}"
    if stored is None:
        return (
            f"{yours}; the schedule was removed meanwhile. Save again to store it anew."
        )
    return (
        f"{yours}; {stored.changed_by} has made it version {stored.version} meanwhile."
        " Below is what differs. Save again to replace that version by your form."
    )


def texts(known: ScheduleRow) -> dict[str, str]:
    """Return a row as texts of the form; what cannot be read is shown as JSON."""
    try:
        return fields.texts(known)
    except (AttributeError, KeyError, TypeError, ValueError):
        plain = dict.fromkeys(NAMES, "")
        named = {"name": known.name, "task": known.task, "version": str(known.version)}
        filled = {"kind": "json", "value": json.dumps(known.schedule)}
        return {**plain, **named, **filled}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else ""
    return "" if value is None else str(value)


def _field(one: Field) -> Any:
    common: dict[str, Any] = {
        "label": one.label,
        "help_text": one.help,
        "required": one.required,
    }
    if one.kind == "choice":
        return forms.ChoiceField(choices=one.choices, **common)
    if one.kind == "check":
        return forms.BooleanField(**common)
    if one.kind == "hidden":
        return forms.CharField(widget=forms.HiddenInput, **common)
    if one.kind == "json" or one.name == "value":
        return forms.CharField(widget=AdminTextareaWidget({"rows": 2}), **common)
    attrs = {"list": LISTS[one.name]} if one.name in LISTS else {}
    return forms.CharField(widget=AdminTextInputWidget(attrs), **common)


def fieldsets(*, adding: bool) -> list[tuple[str | None, dict[str, Any]]]:
    """Return the fields in groups; one that no group names comes with the policies."""
    named = {name for _, options in FIELDSETS for name in _flat(options["fields"])}
    others = [one.name for one in FIELDS if one.name not in {*named, *LAST}]
    sections = [(title, dict(options)) for title, options in FIELDSETS]
    sections[-1][1]["fields"] = [*FIELDSETS[-1][1]["fields"], *others]
    sections[0][1]["fields"] = [
        *FIELDSETS[0][1]["fields"],
        *(LAST if adding else LAST[1:]),
    ]
    return sections


def _flat(names: Any) -> Iterator[str]:
    for name in names:
        yield from (name,) if isinstance(name, str) else name
