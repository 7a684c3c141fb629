"""Rows of stored schedules as people see them; a row that cannot be read says why."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from celery_pecker.kernel.clock import from_us, to_us
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.schedules.engine.model import NEVER_US, Entry
from celery_pecker.schedules.stored.model import BY_CODE, Definition, ScheduleRow
from celery_pecker.schedules.stored.options import check_running, check_task
from celery_pecker.schedules.stored.timings import Timings, following

DOCUMENTS = ("args", "kwargs", "options", "schedule", "policies")
"""Columns of JSON."""


@dataclass(frozen=True, slots=True)
class Current:
    """What ``read_stored`` answers of a name; its columns, in order."""

    now_us: int
    who: str
    owner: str | None
    name: str
    task: str | None
    args: str
    kwargs: str
    options: str
    schedule: str
    policies: str
    run: str
    start: datetime | None
    end: datetime | None
    once: bool
    once_at: datetime | None
    stored_version: int | None
    removed_at: datetime | None
    created_at: datetime
    changed_at: datetime
    changed_by: str
    executed_us: int | None
    ran: bool
    stored_paused: bool | None
    by_code: bool
    hot_version: int | None = None

    @property
    def there(self) -> bool:
        """Whether it is stored and not removed."""
        return self.stored_version is not None and self.removed_at is None

    @property
    def version(self) -> int:
        """Its version, also after it was removed; 0: there never was one."""
        return self.stored_version or 0

    @property
    def done(self) -> bool:
        """Whether it was to run once, and its instant is over."""
        if not self.once or self.once_at is None or self.executed_us is None:
            return False
        return from_us(self.executed_us) >= self.once_at

    @property
    def paused(self) -> bool:
        """Whether its slots pass without a run."""
        return bool(self.stored_paused)


def _decoded(current: Current) -> dict[str, Any]:
    """Return the fields of a row's definition."""
    return {
        "name": current.name,
        "task": current.task or "",
        "run": current.run,
        "start": _utc(current.start),
        "end": _utc(current.end),
        "once": current.once,
        **{part: json.loads(getattr(current, part)) for part in DOCUMENTS},
    }


class Reading:
    """Reads rows; nothing that stands in one of them is an error."""

    def __init__(self, timings: Timings) -> None:
        self._timings = timings

    def entry(self, current: Current, *, name: str | None = None) -> Entry | None:
        """Return the entry of a row, or of another name; None if it cannot be read."""
        try:
            return self._entry(current, name or current.name)
        except Misconfigured:
            return None

    def definition(self, current: Current) -> Definition | None:
        """Return the definition of a row; None if the row cannot be read."""
        if self.entry(current) is None:
            return None
        return Definition(**_decoded(current))

    def row(self, current: Current) -> ScheduleRow:
        """Return a row for people."""
        entry, problem = None, BY_CODE if current.by_code else None
        try:
            entry = self._entry(current, current.name)
            check_task(entry.task, self._timings.allow_list)
            check_running(json.loads(current.options), self._timings.allow_list)
        except Misconfigured as error:
            does = "cannot be read" if entry is None else "does not run"
            problem = f"{does}: {error}"
        return self._shown(current, entry, problem)

    def written(
        self,
        current: Current,
        wanted: Definition,
        values: Mapping[str, Any],
        *,
        created_at: datetime,
        entry: Entry,
    ) -> ScheduleRow:
        """Return the row that an edit has just written."""
        executed_at = values["executed_at"]
        executed_us = current.executed_us
        if executed_at is not None:
            executed_us = to_us(executed_at)
        paused = values["paused"]
        after = replace(
            current,
            name=wanted.name,
            task=wanted.task,
            run=wanted.run,
            start=wanted.start,
            end=wanted.end,
            once=wanted.once,
            once_at=values["once_at"],
            stored_version=values["version"],
            removed_at=None,
            created_at=created_at,
            changed_at=values["at"],
            changed_by=values["by"],
            executed_us=executed_us,
            ran=current.ran and executed_us == current.executed_us,
            stored_paused=current.paused if paused is None else paused,
            by_code=False,
            **{part: values[part] for part in DOCUMENTS},
        )
        return self._shown(after, entry, None)

    def _entry(self, current: Current, name: str) -> Entry:
        return self._timings.entry(
            name,
            task=current.task or "",
            schedule=current.schedule,
            policies=current.policies,
            run=current.run,
            start=_utc(current.start),
            end=_utc(current.end),
            once_at=_utc(current.once_at) if current.once else None,
        )

    def _shown(
        self, current: Current, entry: Entry | None, problem: str | None
    ) -> ScheduleRow:
        decoded, once_at = _decoded(current), _utc(current.once_at)
        words = ""
        if entry is not None:
            words = self._timings.words(
                current.name,
                decoded["schedule"],
                start=decoded["start"],
                end=decoded["end"],
                once=current.once,
                once_at=once_at,
            )
        executed_us = current.executed_us
        next_due = None
        if entry is not None and executed_us is not None and not current.paused:
            next_due = _next(entry, executed_us, current.now_us)
        return ScheduleRow(
            **decoded,
            words=words,
            once_at=once_at,
            paused=current.paused,
            version=current.version,
            created_at=current.created_at.astimezone(UTC),
            changed_at=current.changed_at.astimezone(UTC),
            changed_by=current.changed_by,
            last_slot=(
                from_us(executed_us)
                if current.ran and executed_us is not None
                else None
            ),
            next_due=next_due,
            done=current.done,
            declared_by_code=current.by_code,
            problem=problem,
        )


def _next(entry: Entry, executed_us: int, now_us: int) -> datetime | None:
    next_us = following(entry, executed_us, now_us)
    return None if next_us >= NEVER_US else from_us(next_us)


def _utc(instant: datetime | None) -> datetime | None:
    return None if instant is None else instant.astimezone(UTC)
