"""What people store of a schedule, checked: the one validator for code, CLI and forms.

Nothing here asks a server: what can be wrong with a definition is refused before.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from celery_pecker.kernel.app_modules import load_app
from celery_pecker.kernel.declared import moment_of
from celery_pecker.kernel.errors import InvalidField
from celery_pecker.schedules.declarations.reading import STORED
from celery_pecker.schedules.declarations.task_entries import add_entries
from celery_pecker.schedules.declarations.validation import storable
from celery_pecker.schedules.stored import schedule_json
from celery_pecker.schedules.stored.checks import (
    allowed,
    check_by,
    check_name,
    check_options,
    check_task,
    check_version,
    checked_json,
    refuse,
)
from celery_pecker.schedules.stored.edit_plan import Edit
from celery_pecker.schedules.stored.edits import MOST
from celery_pecker.schedules.stored.model import Definition
from celery_pecker.schedules.stored.timings import Timings

FIRST, LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
DURATIONS = ("timeout", "grace")


@dataclass(eq=False, repr=False)
class Validator:
    """Checks definitions, and the arguments of `set` and the like, for one app."""

    app: Any
    timings: Timings
    allow_list: Sequence[str] | None

    def allowed(self, task: str) -> bool:
        """Return whether a stored schedule may run the task."""
        return allowed(task, self.allow_list)

    def check(  # noqa: PLR0913  # all options of a schedule
        self,
        name: str,
        *,
        task: str,
        schedule: Any,
        args: Any = (),
        kwargs: Any = None,
        options: Any = None,
        policies: Mapping[str, Any],
        run: Any = None,
        start: Any = None,
        end: Any = None,
        once: Any = False,
    ) -> Definition:
        """Return a checked definition.

        Raises:
            InvalidField: one field is wrong.
        """
        check_name(name)
        self._check_task(task)
        if not isinstance(once, bool):
            refuse("once", once, "True or False")
        document = schedule_json.to_json(schedule)
        first = self.instant("start", start)
        last = self.instant("end", end)
        if first is not None and last is not None and last < first:
            refuse("end", str(end), f"none before the start, {first.isoformat()}")
        if "once" in document:
            if first is not None or last is not None:
                field = "end" if first is None else "start"
                refuse(field, str(first or last), "none beside a schedule 'once'")
            self.instant("schedule", document["once"])
            once = True
        listed = [*args] if isinstance(args, tuple) else args
        listed = checked_json("args", listed, list)
        named = checked_json("kwargs", {} if kwargs is None else kwargs, dict)
        chosen = _options(options)
        check_options(chosen, self.allow_list, (listed, named))
        definition = Definition(
            name=name,
            task=task,
            args=listed,
            kwargs=named,
            options=chosen,
            schedule=document,
            policies=_policies(policies),
            run=str("dispatch" if run is None else run),
            start=first,
            end=last,
            once=once,
        )
        once_at = LAST if once and "once" not in document else None
        self.timings.entry(definition, once_at)
        return definition

    def instant(self, field: str, value: Any) -> datetime | None:
        """Return an instant; a naive one is local time of the app's zone.

        Raises:
            InvalidField: it is none.
        """
        if value is None:
            return None
        moment = moment_of(value, self.app.timezone)
        try:
            moment = moment and moment.astimezone(UTC)
        except OverflowError:
            moment = None
        if moment is None or not FIRST <= moment < LAST:
            allowed = (
                "a datetime of 1970 to 8999, or its text, as '2026-11-23 10:00';"
                " without an offset it is local time of the app's zone"
            )
            refuse(field, value, allowed)
        return moment

    def code(self) -> Mapping[str, Any]:
        """Return the entries that this app's ``beat_schedule`` declares."""
        load_app(self.app)
        add_entries(self.app)
        entries: Mapping[str, Any] = self.app.conf.beat_schedule
        return entries

    def one(self, fields: dict[str, Any]) -> tuple[Definition, Edit]:
        """Return definition and edit that the arguments of `set` ask for."""
        fields = {"version": None, "by": None, "paused": None, **fields}
        edit = self.edit(
            fields["name"], *(fields.pop(key) for key in ("version", "by", "paused"))
        )
        policies = {key: fields.pop(key, None) for key in STORED}
        return self.check(policies=policies, **fields), edit

    def several(
        self, schedules: Iterable[Mapping[str, Any]], by: str | None
    ) -> Sequence[tuple[Definition, Edit]]:
        """Return definition and edit of each; ``by``: of those that do not say."""
        edits: dict[str, tuple[Definition, Edit]] = {}
        for fields in schedules:
            name = check_name(fields.get("name"))
            if name in edits:
                refuse("name", name, "each name once")
            if len(edits) == MOST:
                refuse("schedules", f"more than {MOST:,}", f"{MOST:,} at once")
            try:
                edits[name] = self.one({"by": by, **fields})
            except InvalidField as error:
                raise InvalidField(f"{name!r}: {error}", field=error.field) from error
        return [*edits.values()]

    def edit(
        self,
        name: str,
        version: int | None,
        by: str | None,
        paused: bool | None = None,
    ) -> Edit:
        """Return how a schedule is edited, without what it is changed to."""
        if paused is not None and not isinstance(paused, bool):
            refuse("paused", paused, "True, False or None (as it is)")
        return Edit(
            version=check_version(version),
            by=check_by(by),
            paused=paused,
            in_code=name in self.code(),
        )

    def _check_task(self, task: object) -> None:
        if not isinstance(task, str) or not storable(task):
            refuse("task", task, "the name of a task, 1 to 1000 bytes without NUL")
        check_task(task, self.allow_list)


def _options(options: Any) -> dict[str, Any]:
    checked = {} if options is None else options
    if isinstance(checked, dict):
        if "pecker" in checked:
            refuse("options", checked, "those of apply_async; policies are arguments")
        headers = checked.get("headers")
        if headers is not None and not isinstance(headers, Mapping):
            refuse("options", checked, "a dict under 'headers'")
    result: dict[str, Any] = checked_json("options", checked, dict)
    return result


def _policies(policies: Mapping[str, Any]) -> dict[str, Any]:
    checked: dict[str, Any] = {}
    for key, value in policies.items():
        if value is None:
            continue
        plain = value.total_seconds() if isinstance(value, timedelta) else value
        if key in DURATIONS and isinstance(plain, float):
            plain = schedule_json.number(plain)
        checked[key] = checked_json(key, [plain], list)[0]
    return checked
