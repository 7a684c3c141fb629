"""A stored schedule gets another name: one operation, in whatever transaction there is.

The new name goes on where the old one was: its last slot, version, pause, history and
what is asked of it. The old name stays for a day as one that was removed, with a
version that no replica has read, so that a replica that still knows it claims nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from celery_pecker.kernel.adapters.adapter import Flow, Statement
from celery_pecker.kernel.clock import from_us
from celery_pecker.kernel.errors import (
    InvalidField,
    SlotUnderway,
    UnknownSchedule,
    VersionConflict,
)
from celery_pecker.schedules.engine.model import Entry
from celery_pecker.schedules.stored import anchor
from celery_pecker.schedules.stored.edit_plan import (
    RIVALS,
    Edit,
    check_version,
    refuse_code,
)
from celery_pecker.schedules.stored.model import Definition, ScheduleRow
from celery_pecker.schedules.stored.rows import Current, Reading

Ask = Callable[[str, Mapping[str, object]], Statement]
Read = Callable[[Sequence[str]], Flow[list[Current]]]


class Renaming:
    """Renames stored schedules of one schema."""

    def __init__(self, reading: Reading, read: Read, ask: Ask) -> None:
        self._reading = reading
        self._read = read
        self._ask = ask

    def rename(self, old: str, new: str, edit: Edit) -> Flow[ScheduleRow]:
        """Give a stored schedule another name; return its row.

        All that can be refused is refused before anything is written: a transaction of
        the caller's may go on after it.

        Raises:
            InvalidField: the new name is taken.
            SlotUnderway: a slot of it is claimed and not confirmed.
            UnknownSchedule: none is stored under the old name.
            VersionConflict: it has not the version that the edit is for.
        """
        for _ in range(RIVALS):
            yield self._ask("lock_entries", {"names": sorted((old, new))})
            currents = {one.name: one for one in (yield from self._read([old, new]))}
            before, there = currents[old], currents[new]
            definition, entry = self._checked(before, there, edit)
            if _owns(before) and (yield self._ask("find_underway", {"name": old})):
                raise SlotUnderway
            names = [] if there.executed_us is not None else [new]
            values = {"names": names, "now": None}
            if names and not (yield self._ask("enroll_stored", values)):
                continue  # another edit has just created it
            yield self._ask("lock_reports", {"names": sorted((old, new))})
            yield self._ask("clear_name", {"name": new})
            values = _written(before, there, definition, entry, edit)
            values |= self._anchored(before, there, entry)
            yield self._ask("rename_schedule", values)
            [row] = yield from self._read([new])
            return self._reading.row(row)
        raise VersionConflict(new, expected=0, actual=1)

    def _checked(
        self, before: Current, there: Current, edit: Edit
    ) -> tuple[Definition, Entry]:
        if not before.there:
            message = f"no stored schedule is named {before.name!r}"
            raise UnknownSchedule(before.name, message)
        check_version(before, edit.version)
        if edit.in_code:
            refuse_code(there.name, "this app's beat_schedule declares it")
        if there.by_code:
            refuse_code(there.name, "the code of a living scheduler declares it")
        if there.there:
            message = (
                f"name is {there.name!r}, and a stored schedule has it, version"
                f" {there.version}; allowed is a name that none has"
            )
            raise InvalidField(message, field="name")
        definition = self._reading.definition(before)
        entry = self._reading.entry(before, name=there.name)
        if definition is None or entry is None:
            message = (
                f"name is {before.name!r}, whose row cannot be read; allowed is a"
                " schedule that can: mend it with set"
            )
            raise InvalidField(message, field="name")
        return definition, entry

    def _anchored(
        self, before: Current, there: Current, entry: Entry
    ) -> dict[str, Any]:
        """Return where the slots of the new name count from."""
        hot = anchor.Hot(
            executed_us=before.executed_us or before.now_us,
            now_us=before.now_us,
            paused=before.paused,
        )
        where, old = anchor.first(hot), self._reading.entry(before)
        if _owns(before) and old is not None:
            where = anchor.renamed(old, entry, hot, there.executed_us or 0)
        executed_us = where.executed_us or hot.executed_us
        return {
            "executed_at": from_us(executed_us),
            "ran": executed_us == hot.executed_us,
            "asked": [from_us(one) for one in where.asked_us],
        }


def _owns(current: Current) -> bool:
    """Return whether the entry's row is the stored schedule's, and not one of code."""
    return current.hot_version == current.version


def _written(
    before: Current, there: Current, wanted: Definition, entry: Entry, edit: Edit
) -> dict[str, Any]:
    policy = entry.policy
    return {
        "old": before.name,
        "new": there.name,
        "owns": _owns(before),
        "version": max(before.version, there.version) + 1,
        "gone": before.version + 1,
        "at": from_us(before.now_us),
        "by": edit.by or f"db:{before.who}",
        "described": entry.described,
        "delivery": policy.delivery.value,
        "period": entry.period_us,
        "timeout": policy.timeout_us,
        "definition": json.dumps(wanted.document()),
    }
