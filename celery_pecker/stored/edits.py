"""Edits and listings of stored schedules, in whatever transaction there is.

Flows are written once, for what blocks and for what is awaited: they yield statements
and are sent their rows. An edit locks the hot row, reads what there is, decides where
slots count from (``anchor``), and writes all of it in one statement.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

from celery_pecker.carriers.carrier import Flow, Statement
from celery_pecker.kernel.clock import from_us, to_us
from celery_pecker.kernel.database import render
from celery_pecker.kernel.errors import (
    InvalidField,
    Misconfigured,
    UnknownSchedule,
    VersionConflict,
)
from celery_pecker.schedules.model import NEVER_US, Entry
from celery_pecker.sql import statements
from celery_pecker.stored import anchor
from celery_pecker.stored.definition import Definition
from celery_pecker.stored.model import Change, Changes, Rows, ScheduleRow
from celery_pecker.stored.reading import Found, Reading
from celery_pecker.stored.timing import Timings, following

MOST = 1_000
"""Rows of one listing at most."""
RIVALS = 10
"""How often a name may appear between two statements of ours before it is an error."""
LATE_US = 60_000_000
"""A single instant that has passed for longer is refused: it is a mistake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Who edits which version."""

    version: int | None = None
    """None: whichever there is; 0: there must be none."""
    by: str | None = None
    """None: the database's user."""
    paused: bool | None = None
    """None: as it is."""


class Edits:
    """The statements for the tables of one schema."""

    def __init__(self, schema: str, *, app_name: str, timings: Timings) -> None:
        self._schema = schema
        self._app_name = app_name
        self._timings = timings
        self._reading = Reading(timings)

    def set(
        self, wanted: Definition, edit: Edit, in_code: Callable[[str], bool]
    ) -> Flow[ScheduleRow]:
        """Create or change a stored schedule; return its row.

        Raises:
            InvalidField: code declares the name, or it would never run.
            VersionConflict: it has not the version that the edit is for.
        """
        if in_code(wanted.name):
            _refuse_code(wanted.name, "this app's beat_schedule declares it")
        found, once_at, new = yield from self._locked(wanted, edit)
        old, same = self._before(wanted, found)
        hot = anchor.Hot(
            executed_us=found.executed_us or found.now_us,
            now_us=found.now_us,
            paused=found.paused or bool(edit.paused),
        )
        paused = edit.paused
        if not found.there:
            where, paused = anchor.first(hot), bool(edit.paused)
        elif same:
            where = anchor.Anchor()
        else:
            where = anchor.changed(old, new, hot)
        change = "changed" if found.there else "created"
        if found.removed_at is not None:
            change = "returned"
        values = self._written(wanted, new, where, found)
        values |= {"once_at": once_at, "paused": paused, "change": change}
        values["by"] = edit.by or f"db:{found.who}"
        [(created_at,)] = yield self._statement("write_schedule", values)
        return self._reading.written(
            found, wanted, values, created_at=created_at, entry=new
        )

    def remove(self, name: str, edit: Edit) -> Flow[bool]:
        """Remove a stored schedule; say whether there was one.

        Raises:
            VersionConflict: it has not the version that the edit is for.
        """
        yield self._statement("lock_entry", {"name": name})
        found = yield from self._found(name)
        _check_version(found, edit.version)
        if not found.there:
            return False
        values = {
            "name": name,
            "version": found.version + 1,
            "at": from_us(found.now_us),
            "by": edit.by or f"db:{found.who}",
        }
        rows = yield self._statement("remove_schedule", values)
        return bool(rows)

    def pause(self, name: str, *, paused: bool, by: str | None) -> Flow[bool]:
        """Pause an entry, or let it go on; say whether that changed anything.

        Raises:
            UnknownSchedule: there is no such entry.
        """
        values = {"now": None, "name": name, "paused": paused, "by": by}
        rows = yield self._statement("pause_entry", values)
        if not rows:
            message = f"no entry is named {name!r} in the tables"
            raise UnknownSchedule(message)
        return bool(rows[0][0])

    def get(self, name: str) -> Flow[ScheduleRow | None]:
        """Return a stored schedule that was not removed."""
        found = yield from self._found(name)
        return self._reading.row(found) if found.there else None

    def list(
        self,
        *,
        search: str | None,
        task: str | None,
        after: str | None,
        names: Sequence[str] | None,
        limit: int,
    ) -> Flow[Rows]:
        """Return stored schedules by name."""
        rows = yield self._statement(
            "list_schedules",
            {
                "now": None,
                "names": names,
                "search": search,
                "task": task,
                "after": after,
                "most": min(limit, MOST),
            },
        )
        return [self._reading.row(Found(*row)) for row in rows]

    def history(self, name: str, limit: int) -> Flow[Changes]:
        """Return the changes of a name, newest first."""
        values = {"name": name, "most": min(limit, MOST)}
        rows = yield self._statement("read_schedule_changes", values)
        return [_change(row) for row in rows]

    def _locked(
        self, wanted: Definition, edit: Edit
    ) -> Flow[tuple[Found, datetime | None, Entry]]:
        """Return what there is of a name, its single instant, and its new entry.

        The hot row is locked, and made if there is none. It is made after all that can
        be refused was refused: in a transaction that goes on after a refusal it would
        be left behind.
        """
        name, version = wanted.name, 0
        for _ in range(RIVALS):
            held = yield self._statement("lock_entry", {"name": name})
            found = yield from self._found(name)
            _check_version(found, edit.version)
            if found.by_code:
                _refuse_code(name, "the code of a living scheduler declares it")
            once_at, new = self._timed(wanted, found)
            if not held:
                values = {"name": name, "now": None}
                held = yield self._statement("enroll_stored", values)
            if held:
                return found, once_at, new
            version = found.version
        raise VersionConflict(name, expected=version, actual=version + 1)

    def _found(self, name: str) -> Flow[Found]:
        values = {"now": None, "name": name}
        [row] = yield self._statement("read_schedule", values)
        found = Found(*row)
        if found.owner is not None and found.owner != self._app_name:
            message = (
                f"schema {self._schema!r} belongs to the app {found.owner!r}, and this"
                f" is {self._app_name!r}; allowed is a pecker_schema of its own, or"
                f" pecker_app = {found.owner!r}"
            )
            raise Misconfigured(message)
        return found

    def _timed(self, wanted: Definition, found: Found) -> tuple[datetime | None, Entry]:
        """Return the single instant of an edit and its entry; refuse what is over."""
        after_us = max(found.now_us, found.executed_us or 0)
        if "once" in wanted.schedule:
            at_us = to_us(datetime.fromisoformat(wanted.schedule["once"]))
            if self._same(wanted, found) and found.once_at is not None:
                return found.once_at, self._entry(wanted, found.once_at)
            if found.now_us - at_us > LATE_US:
                now = from_us(found.now_us).isoformat()
                message = (
                    f"schedule: once is {from_us(at_us).isoformat()}, and now is {now};"
                    " allowed is an instant to come"
                )
                raise InvalidField(message, field="schedule")
            at_us = max(at_us, after_us + 1)
            return from_us(at_us), self._entry(wanted, from_us(at_us))
        if self._same(wanted, found):
            return found.once_at, self._entry(wanted, found.once_at)
        entry = self._entry(wanted, None)
        next_us = following(entry, after_us, after_us)
        if next_us >= NEVER_US:
            field = "schedule" if wanted.end is None else "end"
            message = (
                f"{field} leaves no run after now, {from_us(found.now_us).isoformat()};"
                " allowed is a schedule that comes"
            )
            raise InvalidField(message, field=field)
        if not wanted.once:
            return None, entry
        return from_us(next_us), self._entry(wanted, from_us(next_us))

    def _entry(self, wanted: Definition, once_at: datetime | None) -> Entry:
        return self._timings.entry(
            wanted.name,
            task=wanted.task,
            schedule=wanted.schedule,
            policies=wanted.policies,
            run=wanted.run,
            start=wanted.start,
            end=wanted.end,
            once_at=once_at,
        )

    def _same(self, wanted: Definition, found: Found) -> bool:
        """Say whether an edit leaves alone when the entry is due.

        A single run that is over is scheduled anew by any edit.
        """
        if not found.there or found.done:
            return False
        before = self._reading.definition(found)
        return before is not None and before.timing == wanted.timing

    def _before(self, wanted: Definition, found: Found) -> tuple[Entry | None, bool]:
        """Return the entry before the edit, and whether it is due at the same times."""
        if not found.there:
            return None, False
        return self._reading.entry(found), self._same(wanted, found)

    def _written(
        self, wanted: Definition, new: Entry, where: anchor.Anchor, found: Found
    ) -> dict[str, Any]:
        policy = new.policy
        return {
            "name": wanted.name,
            "task": wanted.task,
            "args": json.dumps(wanted.args),
            "kwargs": json.dumps(wanted.kwargs),
            "options": json.dumps(wanted.options),
            "schedule": json.dumps(wanted.schedule),
            "policies": json.dumps(wanted.policies),
            "run": wanted.run,
            "starts_at": wanted.start,
            "ends_at": wanted.end,
            "once": wanted.once,
            "version": found.version + 1,
            "at": from_us(found.now_us),
            "executed_at": (
                None if where.executed_us is None else from_us(where.executed_us)
            ),
            "described": new.described,
            "delivery": policy.delivery.value,
            "period_us": new.period_us,
            "timeout_us": policy.timeout_us,
            "asked": [from_us(one) for one in where.asked_us],
            "definition": json.dumps(wanted.document()),
        }

    def _statement(self, label: str, params: Mapping[str, object]) -> Statement:
        return Statement(label, render(statements()[label], self._schema), params)


def _check_version(found: Found, expected: int | None) -> None:
    actual = found.version if found.there else 0
    if expected is not None and expected != actual:
        raise VersionConflict(found.name, expected=expected, actual=actual)


def _refuse_code(name: str, why: str) -> NoReturn:
    message = (
        f"name is {name!r}, and {why}; allowed is a name that no code declares: change"
        " the code, or choose another"
    )
    raise InvalidField(message, field="name")


def _change(row: Sequence[Any]) -> Change:
    number, name, version, change, changed_at, changed_by, definition = row
    return Change(
        id=number,
        name=name,
        version=version,
        change=change,
        changed_at=changed_at,
        changed_by=changed_by,
        definition=None if definition is None else json.loads(definition),
    )
