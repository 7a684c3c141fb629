"""What an edit of a stored schedule writes, from what is there. Asks no server."""

import json
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from celery_pecker.kernel.clock import from_us, to_us
from celery_pecker.kernel.errors import InvalidField, UnknownSchedule, VersionConflict
from celery_pecker.schedules.engine.bounds import latest
from celery_pecker.schedules.engine.model import NEVER_US, Entry
from celery_pecker.schedules.stored import anchor
from celery_pecker.schedules.stored.model import Definition, ScheduleRow
from celery_pecker.schedules.stored.rows import DOCUMENTS, Current, Reading, in_utc

RIVALS = 10
"""How often a name may appear between two statements of ours before it is an error."""
LATE_US = 60_000_000
"""A single instant that has passed for longer is refused: it is a mistake."""
OWN_CODE = "this app's beat_schedule"
LIVING_CODE = "the code of a living scheduler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """The user of an edit, and the version that it is for."""

    version: int | None = None
    """None: whichever there is; 0: there must be none."""
    by: str | None = None
    """None: the database's user."""
    paused: bool | None = None
    """None: as it is."""
    in_code: bool = False
    """Whether this app's beat_schedule declares the name."""


@dataclass(frozen=True, slots=True)
class PlannedEdit:
    """An edit that may be written."""

    wanted: Definition
    current: Current
    entry: Entry
    values: dict[str, Any]
    """The columns of ``write_schedules``."""


class EditPlanner(Reading):
    """Reads rows, and decides what edits write."""

    def decide(self, wanted: Definition, edit: Edit, current: Current) -> PlannedEdit:
        """Return what an edit writes.

        Raises:
            InvalidField: code declares the name, or it would never run.
            VersionConflict: it has not the version that the edit is for.
        """
        _refuse_code(current.name, OWN_CODE, declares=edit.in_code)
        check_version(current, edit.version)
        _refuse_code(current.name, LIVING_CODE, declares=current.by_code)
        same = self._same(wanted, current)
        once_at, new = self._timed(wanted, current, same=same)
        hot = anchor.Hot(
            executed_us=current.executed_us or current.now_us,
            now_us=current.now_us,
            paused=current.paused or bool(edit.paused),
        )
        paused = edit.paused
        if not current.there:
            where, paused = anchor.first(hot), bool(edit.paused)
        elif same:
            where = anchor.Anchor()
        else:
            where = anchor.changed(self.entry(current), new, hot)
        change = "changed" if current.there else "created"
        if current.removed_at is not None:
            change = "returned"
        values = self._written(wanted, new, where, current)
        values |= {"once_at": once_at, "paused": paused, "change": change}
        values["by"] = edit.by or f"db:{current.who}"
        return PlannedEdit(wanted, current, new, values)

    def rename(self, before: Current, there: Current, edit: Edit) -> dict[str, Any]:
        """Return what a rename writes, from the row of each name.

        Raises:
            InvalidField: the new name is taken.
            UnknownSchedule: none is stored under the old name.
            VersionConflict: it has not the version that the edit is for.
        """
        if not before.there:
            raise UnknownSchedule(
                before.name, f"no stored schedule is named {before.name!r}"
            )
        check_version(before, edit.version)
        _refuse_code(there.name, OWN_CODE, declares=edit.in_code)
        _refuse_code(there.name, LIVING_CODE, declares=there.by_code)
        if there.there:
            raise InvalidField(
                f"name is {there.name!r}, and a stored schedule has it, version"
                f" {there.version}; allowed is a name that none has",
                field="name",
            )
        old = self.entry(before)
        new = self.entry(before, name=there.name)
        if old is None or new is None:
            raise InvalidField(
                f"name is {before.name!r}, whose row cannot be read; allowed is a"
                " schedule that can: mend it with set",
                field="name",
            )
        hot = anchor.Hot(
            executed_us=before.executed_us or before.now_us,
            now_us=before.now_us,
            paused=before.paused,
        )
        where = anchor.first(hot)
        if before.owns:
            where = anchor.renamed(old, new, hot, there.executed_us or 0)
        executed_us = where.executed_us or hot.executed_us
        return {
            "old": before.name,
            "new": there.name,
            "owns": before.owns,
            "version": max(before.version, there.version) + 1,
            "gone": before.version + 1,
            "at": from_us(before.now_us),
            "by": edit.by or f"db:{before.who}",
            "described": new.described,
            "delivery": new.policy.delivery.value,
            "period": new.period_us,
            "timeout": new.policy.timeout_us,
            "definition": json.dumps(before.definition.document()),
            "executed_at": from_us(executed_us),
            "ran": executed_us == hot.executed_us,
            "asked": [from_us(one) for one in where.asked_us],
        }

    def written(self, decided: PlannedEdit, created_at: datetime) -> ScheduleRow:
        """Return the row that an edit has just written."""
        current, values = decided.current, decided.values
        executed_us, paused = current.executed_us, values["paused"]
        if values["executed_at"] is not None:
            executed_us = to_us(values["executed_at"])
        after = replace(
            current,
            definition=decided.wanted,
            once_at=values["once_at"],
            stored_version=values["version"],
            removed_at=None,
            created_at=in_utc(created_at),
            changed_at=values["at"],
            changed_by=values["by"],
            executed_us=executed_us,
            ran=current.ran and executed_us == current.executed_us,
            stored_paused=current.paused if paused is None else paused,
            by_code=False,
        )
        return self.shown(after, decided.entry, None)

    def _timed(
        self, wanted: Definition, current: Current, *, same: bool
    ) -> tuple[datetime | None, Entry]:
        """Return the single instant of an edit and its entry; refuse what is over."""
        after_us = max(current.now_us, current.executed_us or 0)
        if "once" in wanted.schedule:
            at_us = to_us(datetime.fromisoformat(wanted.schedule["once"]))
            if same and current.once_at is not None:
                return current.once_at, self._timings.entry(wanted, current.once_at)
            if current.now_us - at_us > LATE_US:
                now = from_us(current.now_us).isoformat()
                raise InvalidField(
                    f"schedule: once is {from_us(at_us).isoformat()}, and now is {now};"
                    " allowed is an instant to come",
                    field="schedule",
                )
            at_us = max(at_us, after_us + 1)
            return from_us(at_us), self._timings.entry(wanted, from_us(at_us))
        if same:
            return current.once_at, self._timings.entry(wanted, current.once_at)
        entry = self._timings.entry(wanted)
        period_us = anchor.period_of(entry)
        if period_us is not None and current.there and not wanted.once:
            after_us = latest(current.executed_us or after_us, period_us, after_us)
        next_us = entry.next(after_us, after_us)
        if next_us >= NEVER_US:
            field = "schedule" if wanted.end is None else "end"
            now = from_us(current.now_us).isoformat()
            raise InvalidField(
                f"{field} leaves no run after now, {now};"
                " allowed is a schedule that comes",
                field=field,
            )
        if not wanted.once:
            return None, entry
        return from_us(next_us), self._timings.entry(wanted, from_us(next_us))

    def _same(self, wanted: Definition, current: Current) -> bool:
        """Return whether an edit leaves alone when the entry is due.

        A single run that is over is scheduled anew by any edit.
        """
        if not current.there or current.done:
            return False
        readable = self.entry(current) is not None
        return readable and current.definition.timing == wanted.timing

    def _written(
        self, wanted: Definition, new: Entry, where: anchor.Anchor, current: Current
    ) -> dict[str, Any]:
        policy = new.policy
        return {
            "name": wanted.name,
            "task": wanted.task,
            **{part: json.dumps(getattr(wanted, part)) for part in DOCUMENTS},
            "run": wanted.run,
            "starts_at": wanted.start,
            "ends_at": wanted.end,
            "once": wanted.once,
            "version": current.version + 1,
            "at": from_us(current.now_us),
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


def check_version(current: Current, expected: int | None) -> None:
    """Refuse an edit for another version than there is."""
    actual = current.version if current.there else 0
    if expected is not None and expected != actual:
        raise VersionConflict(current.name, expected=expected, actual=actual)


def _refuse_code(name: str, code: str, *, declares: bool) -> None:
    if declares:
        raise InvalidField(
            f"name is {name!r}, and {code} declares it; allowed is a name that no code"
            " declares: change the code, or choose another",
            field="name",
        )
