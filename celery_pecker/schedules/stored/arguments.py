"""Check the arguments of `Schedules`, before any server is asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from celery_pecker.kernel.app_modules import load_app
from celery_pecker.kernel.clock import new_tag
from celery_pecker.kernel.errors import InvalidField
from celery_pecker.schedules.declarations import STORED, add_entries
from celery_pecker.schedules.stored.checks import (
    check_by,
    check_name,
    check_version,
    refuse,
)
from celery_pecker.schedules.stored.definition import Validator
from celery_pecker.schedules.stored.edit_plan import Edit
from celery_pecker.schedules.stored.edits import MOST
from celery_pecker.schedules.stored.model import Definition


class Arguments:
    """Checks the arguments of `set` and what is like it, for one app."""

    def __init__(self, app: Any, validator: Validator) -> None:
        self._app = app
        self._validator = validator

    def code(self) -> Mapping[str, Any]:
        """Return the entries that this app's ``beat_schedule`` declares."""
        load_app(self._app)
        add_entries(self._app)
        entries: Mapping[str, Any] = self._app.conf.beat_schedule
        return entries

    def one(self, fields: dict[str, Any]) -> tuple[Definition, Edit]:
        """Return definition and edit that the arguments of `set` ask for."""
        fields = {"version": None, "by": None, "paused": None, **fields}
        edit = self.edit(
            fields["name"], *(fields.pop(key) for key in ("version", "by", "paused"))
        )
        policies = {key: fields.pop(key, None) for key in STORED}
        return self._validator.check(policies=policies, **fields), edit

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
                message = f"{name!r}: {error}"
                raise InvalidField(message, field=error.field) from error
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

    def once(
        self, task: str, at: datetime | str, name: str | None, fields: dict[str, Any]
    ) -> tuple[str, dict[str, Any]]:
        """Return name and fields of `set` for one run."""
        instant = self._validator.instant("at", at)
        if instant is None:
            refuse("at", at, "a datetime, or its text, as '2026-11-23 10:00'")
        fields["schedule"] = {"once": instant.isoformat()}
        fields["task"] = task
        return name or f"{task} once {new_tag()}", fields
