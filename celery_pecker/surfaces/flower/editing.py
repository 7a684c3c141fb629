"""The page on which a stored schedule is added, changed and removed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from celery_pecker.kernel.app_modules import load_app
from celery_pecker.kernel.clock import to_us
from celery_pecker.kernel.errors import (
    InvalidField,
    SlotUnderway,
    UnknownSchedule,
    VersionConflict,
)
from celery_pecker.schedules.overview import Overview
from celery_pecker.schedules.stored import fields as form
from celery_pecker.schedules.stored.form_fields import FIELDS, KINDS
from celery_pecker.surfaces.flower.pages import (
    Fields,
    Form,
    Page,
    Query,
    Refused,
    Source,
)
from celery_pecker.surfaces.flower.stored_schedules import (
    brief,
    changes_of,
    schedules_of,
    why_read_only,
)
from celery_pecker.surfaces.views import schedules as view

TASKS = 500
"""Names of tasks that the form proposes, at most."""
FORBIDDEN = 403
CONFLICT = 409
GONE = 404
NEW = {"version": "0", "kind": "every"}
"""What a form begins with; version 0: there must be no schedule of that name yet."""


def read(source: Source, query: Query) -> dict[str, Any] | None:
    """Return the form of a schedule, filled in; without a name that of a new one."""
    name = query.get("name", "")
    [(now,)] = source.database.run("read_clock", now=None)
    page = {
        "now": now,
        "name": name,
        "why": why_read_only(source.app),
        "fields": [asdict(field) for field in FIELDS],
        "kinds": {kind: one._asdict() for kind, one in KINDS.items()},
        "tasks": proposed(source),
        "texts": {field.name: NEW.get(field.name, "") for field in FIELDS},
        "stored": None,
        "code": None,
        "cards": {},
        "rows": {"changes": []},
    }
    if not name:
        return page
    try:
        row = schedules_of(source.app).get(name)
    except InvalidField:
        return None
    if row is not None:
        page["stored"] = brief(row)
        page["texts"] = form.texts(row)
    else:
        entry = Overview(source.database).entry(name, limit=1)
        if entry is None:
            return None
        page["code"] = {
            "task": entry.row.task,
            "schedule": entry.row.schedule,
            "period": entry.row.period_us,
        }
    page["rows"] = {"changes": changes_of(source, name)}
    return page


def proposed(source: Source) -> list[str]:
    """Return the tasks of the app that may be scheduled."""
    load_app(source.app)
    allowed = schedules_of(source.app).allowed
    names = (name for name in source.app.tasks if not name.startswith("celery."))
    return sorted(filter(allowed, names))[:TASKS]


def save(source: Source, name: str, by: str, fields: Fields) -> dict[str, Any]:
    """Create or change a schedule as the form has it; return its name and version."""
    _require_editing(source)
    try:
        arguments = form.arguments(_known(fields), zone=source.app.timezone)
    except InvalidField as error:
        raise Refused(str(error), field=error.field) from error
    if name.strip() == arguments["name"]:
        arguments["name"] = name  # a text of a form is read without its blanks
    if arguments.get("version") is None:
        message = "version is missing; allowed is the version that the form was filled"
        raise Refused(message + " in for, or 0 for a new schedule", field="version")
    with _refusals(source):
        schedules = schedules_of(source.app)
        row = schedules.change(name or arguments["name"], **arguments, by=by)
    return {"message": f"Saved {row.name}.", "name": row.name, "version": row.version}


def remove(source: Source, name: str, by: str, fields: Fields) -> dict[str, Any]:
    """Remove a schedule, if it still has the version that the user saw."""
    _require_editing(source)
    version = fields.get("version", "")
    if not version.isascii() or not version.isdigit():
        raise Refused(
            f"version is {version!r}; allowed is the version that is removed",
            field="version",
        )
    with _refusals(source):
        was = schedules_of(source.app).remove(name, version=int(version), by=by)
    if not was:
        raise Refused(f"no stored schedule is named {name!r}", status=GONE)
    return {"message": f"Removed {name}: it does not run any more."}


def preview(source: Source, name: str, by: str, fields: Fields) -> dict[str, Any]:
    """Return the sentence and the next runs of what was typed; nothing is written."""
    _require_editing(source)  # it is work, and for a form that can be saved
    seen = form.preview(schedules_of(source.app), _known(fields))
    return {**asdict(seen), "runs": [to_us(run) for run in seen.runs]}


@contextmanager
def _refusals(source: Source) -> Iterator[None]:
    """Raise what the store refuses as the form shows it."""
    try:
        yield
    except InvalidField as error:
        raise Refused(str(error), field=form.form_field(error)) from error
    except VersionConflict as error:
        raise _conflict(source, error) from error
    except UnknownSchedule as error:
        raise Refused(str(error), status=GONE) from error
    except SlotUnderway as error:
        raise Refused(str(error), status=CONFLICT) from error


def _require_editing(source: Source) -> None:
    why = why_read_only(source.app)
    if why:
        raise Refused(why, status=FORBIDDEN)


def _known(fields: Fields) -> dict[str, str]:
    return {one.name: fields[one.name] for one in FIELDS if one.name in fields}


def _conflict(source: Source, error: VersionConflict) -> Refused:
    """Return what the form shows beside what was typed: the version that is stored."""
    row = schedules_of(source.app).get(error.name)
    stored = None if row is None else {**brief(row), "texts": form.texts(row)}
    message = (
        f"{error.name!r} was changed by {row.changed_by} meanwhile: it is at version"
        f" {row.version}, and this form was filled in for version {error.expected}."
        if row is not None
        else f"{error.name!r} was removed meanwhile: this form was filled in for"
        f" version {error.expected}."
    )
    return Refused(message, status=CONFLICT, conflict={"stored": stored})


EDIT = Page(
    name="schedule-edit",
    title="Edit schedule",
    view=view.EDIT,
    url="/schedules/edit",
    template="edit.html",
    read=read,
    forms={
        "save": Form(does=save),
        "remove": Form(does=remove, undo=True),
        "preview": Form(does=preview, writes=False),
    },
    under="schedules",
)
PAGES = (EDIT,)
