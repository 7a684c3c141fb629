"""Edits and listings of stored schedules, in whatever transaction there is.

Flows are written once, for what blocks and for what is awaited: they yield statements
and are sent their rows. An edit locks the hot rows, reads what there is, decides what
is written (``edit_plan``), and writes all of it in one statement. Where no other edit
is at an entry it takes no lock first: what was read is compared in the statement that
writes.
"""

import json
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Any, cast

from celery_pecker.kernel import refusals
from celery_pecker.kernel.adapters.adapter import Flow, Statement
from celery_pecker.kernel.clock import from_us
from celery_pecker.kernel.errors import (
    InvalidField,
    SlotUnderway,
    UnknownSchedule,
    VersionConflict,
)
from celery_pecker.schedules.stored.edit_plan import (
    RIVALS,
    Edit,
    EditPlanner,
    PlannedEdit,
    check_version,
)
from celery_pecker.schedules.stored.model import (
    Change,
    Changes,
    Definition,
    Rows,
    ScheduleRow,
)
from celery_pecker.schedules.stored.rows import Current
from celery_pecker.schedules.stored.timings import Timings

MOST = 1_000
"""Rows of one listing at most."""
Refused = InvalidField | VersionConflict
Outcomes = list[ScheduleRow | Refused]
Seen = list[Current]


class Edits:
    """The statements for the tables of one schema."""

    def __init__(self, schema: str, *, app_name: str, timings: Timings) -> None:
        self._schema = schema
        self._app_name = app_name
        self._deciding = EditPlanner(timings)

    def set_at_once(self, wanted: Definition, edit: Edit) -> Flow[ScheduleRow | None]:
        """Change what is stored in two statements, of which one writes; return its row.

        None: it is not there as the edit requires, or another edit is at it. Then
        nothing was written, and `set` says what to do.

        Raises:
            InvalidField: code declares the name, or it would never run.
        """
        [current] = yield from self._current([wanted.name])
        fresh = current.there and current.owns
        if not fresh or edit.version not in {None, current.version}:
            return None
        decided = self._deciding.decide(wanted, edit, current)
        decided.values["seen_at"] = from_us(current.executed_us or 0)
        decided.values["seen_paused"] = current.paused
        written = yield from self._write([decided])
        return written.get(wanted.name)

    def set(
        self, edits: Sequence[tuple[Definition, Edit]], *, each: bool = False
    ) -> Flow[Outcomes]:
        """Create or change stored schedules, each of another name; return their rows.

        ``each``: in the place of what is refused is its error, and the others are
        written. Rows of new entries are made after all that can be refused was refused:
        in a transaction that goes on after a refusal they would be left behind.

        Raises:
            InvalidField: code declares the name, or it would never run.
            VersionConflict: it has not the version that the edit is for.
        """
        todo = {wanted.name: (wanted, edit) for wanted, edit in edits}
        if not todo:
            return []
        refused: dict[str, Refused] = {}
        new: list[str] = []
        for _ in range(RIVALS):
            names = [name for name in todo if name not in refused]
            rows = yield self._statement("lock_entries", names=names)
            ready = []
            for current in (yield from self._current(names)):
                try:
                    ready.append(self._deciding.decide(*todo[current.name], current))
                except (InvalidField, VersionConflict) as error:
                    if not each:
                        raise
                    refused[current.name] = error
            held = {name for (name,) in rows}
            new = [one.wanted.name for one in ready if one.wanted.name not in held]
            enroll = self._statement("enroll_stored", names=new)
            made = (yield enroll) if new else ()
            if len(made) == len(new):
                written = yield from self._write(ready)
                return [refused.get(name) or written[name] for name in todo]
        raise VersionConflict(new[0], expected=0, actual=1)

    def change(self, old: str, wanted: Definition, edit: Edit) -> Flow[ScheduleRow]:
        """Give a stored schedule another name and another definition; return its row.

        The definition is judged before anything is written, as by `set`.

        Raises:
            InvalidField, UnknownSchedule, VersionConflict, SlotUnderway: as its parts.
        """
        yield self._statement("lock_entries", names=sorted((old, wanted.name)))
        [current] = yield from self._current([old])
        there = current.there and self._deciding.entry(current) is not None
        same = there and replace(current.definition, name=wanted.name) == wanted
        same = same and edit.paused in {None, current.paused}
        if there and not same:
            asked = Edit(version=edit.version, paused=edit.paused)
            self._deciding.decide(wanted, asked, replace(current, by_code=False))
        row = yield from self.rename(old, wanted.name, edit)
        if same:
            return row
        edit = replace(edit, version=row.version)
        [changed] = yield from self.set([(wanted, edit)])
        return cast("ScheduleRow", changed)

    def rename(self, old: str, new: str, edit: Edit) -> Flow[ScheduleRow]:
        """Give a stored schedule another name; return its row.

        The new name goes on where the old one was: its last slot, version, pause,
        history and what is asked of it. The old name stays for a day as one that was
        removed, with a version that no replica has read, so that a replica that still
        knows it claims nothing. All that can be refused is refused before anything is
        written: a transaction of the caller's may go on after it.

        Raises:
            InvalidField: the new name is taken.
            SlotUnderway: a slot of it is claimed and not confirmed.
            UnknownSchedule: none is stored under the old name.
            VersionConflict: it has not the version that the edit is for.
        """
        both, ask = sorted((old, new)), self._statement
        for _ in range(RIVALS):
            yield ask("lock_entries", names=both)
            currents = {one.name: one for one in (yield from self._current(both))}
            before, there = currents[old], currents[new]
            values = self._deciding.rename(before, there, edit)
            if before.owns and (yield ask("find_underway", name=old)):
                raise SlotUnderway
            names = [] if there.executed_us is not None else [new]
            if names and not (yield ask("enroll_stored", names=names)):
                continue  # another edit has just created it
            yield ask("lock_reports", names=both)
            yield ask("clear_name", name=new)
            yield ask("rename_schedule", **values)
            [row] = yield from self._current([new])
            return self._deciding.row(row)
        raise VersionConflict(new, expected=0, actual=1)

    def remove(self, name: str, edit: Edit) -> Flow[bool]:
        """Remove a stored schedule; say whether there was one.

        Raises:
            VersionConflict: it has not the version that the edit is for.
        """
        yield self._statement("lock_entries", names=[name])
        [current] = yield from self._current([name])
        check_version(current, edit.version)
        if not current.there:
            return False
        rows = yield self._statement(
            "remove_schedule",
            name=name,
            version=current.version + 1,
            at=from_us(current.now_us),
            by=edit.by or f"db:{current.who}",
        )
        return bool(rows)

    def pause(self, name: str, *, paused: bool, by: str | None) -> Flow[bool]:
        """Pause an entry, or let it go on; say whether that changed anything.

        Wait for a concurrent edit: a name that is just being taken from it is unknown.

        Raises:
            UnknownSchedule: there is no such entry.
        """
        yield self._statement("lock_entries", names=[name])
        rows = yield self._statement("pause_entry", name=name, paused=paused, by=by)
        if not rows:
            raise UnknownSchedule(name)
        return bool(rows[0][0])

    def get(self, name: str) -> Flow[ScheduleRow | None]:
        """Return a stored schedule that was not removed."""
        [current] = yield from self._current([name])
        return self._deciding.row(current) if current.there else None

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
            names=names,
            search=search,
            task=task,
            after=after,
            most=min(limit, MOST),
        )
        return [self._deciding.row(Current.of(row)) for row in rows]

    def history(self, name: str, limit: int) -> Flow[Changes]:
        """Return the changes of a name, newest first."""
        most = min(limit, MOST)
        rows = yield self._statement("read_schedule_changes", name=name, most=most)
        return [_change(row) for row in rows]

    def _current(self, names: Sequence[str]) -> Flow[Seen]:
        rows = yield self._statement("read_stored", names=names)
        currents = [Current.of(row) for row in rows]
        owner = currents[0].owner if currents else None
        if owner is not None and owner != self._app_name:
            raise refusals.foreign(self._schema, owner, self._app_name)
        return currents

    def _write(self, edits: Sequence[PlannedEdit]) -> Flow[dict[str, ScheduleRow]]:
        """Return what was written of these, by name."""
        rows = [one.values for one in edits]
        text = json.dumps(rows, default=datetime.isoformat, ensure_ascii=False)
        written = yield self._statement("write_schedules", rows=text)
        created: dict[str, datetime] = dict(written)
        return {
            one.wanted.name: self._deciding.written(one, created[one.wanted.name])
            for one in edits
            if one.wanted.name in created
        }

    def _statement(self, label: str, **params: object) -> Statement:
        return Statement.of(self._schema, label, **params)


def _change(row: Sequence[Any]) -> Change:
    columns = dict(zip((one.name for one in fields(Change)), row, strict=True))
    columns["definition"] = json.loads(columns["definition"] or "null")
    return Change(**columns)
