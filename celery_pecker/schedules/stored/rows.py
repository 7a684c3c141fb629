"""Rows of stored schedules as people see them; a row that cannot be read says why."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Self

from celery_pecker.kernel.clock import from_us
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.schedules.engine.model import NEVER_US, Entry
from celery_pecker.schedules.stored.checks import check_running, check_task
from celery_pecker.schedules.stored.model import BY_CODE, Definition, ScheduleRow
from celery_pecker.schedules.stored.timings import Timings

PARTS = tuple(one.name for one in fields(Definition))
DOCUMENTS = ("args", "kwargs", "options", "schedule", "policies")
"""Columns of JSON."""


@dataclass(frozen=True, slots=True)
class Current:
    """What there is of a name, stored or not, and what time it is."""

    now_us: int
    who: str
    owner: str | None
    definition: Definition
    """As it stands in the row, readable or not; without a row nothing is in it."""
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

    @classmethod
    def of(cls, row: Sequence[Any]) -> Self:
        """Return what a row of ``read_stored`` says: its columns, in order."""
        now_us, who, owner, *columns = map(in_utc, row)
        parts = dict(zip(PARTS, columns, strict=False))
        parts |= {part: json.loads(parts[part] or "null") for part in DOCUMENTS}
        return cls(now_us, who, owner, Definition(**parts), *columns[len(PARTS) :])

    @property
    def name(self) -> str:
        """The name that was asked for."""
        return self.definition.name

    @property
    def there(self) -> bool:
        """Whether it is stored and not removed."""
        return self.stored_version is not None and self.removed_at is None

    @property
    def owns(self) -> bool:
        """Whether the entry's row is the stored schedule's, and not one of code."""
        return self.hot_version == self.version

    @property
    def version(self) -> int:
        """Its version, also after it was removed; 0: there never was one."""
        return self.stored_version or 0

    @property
    def done(self) -> bool:
        """Whether it was to run once, and its instant is over."""
        if not self.definition.once or self.once_at is None or self.executed_us is None:
            return False
        return from_us(self.executed_us) >= self.once_at

    @property
    def paused(self) -> bool:
        """Whether its slots pass without a run."""
        return bool(self.stored_paused)


class Reading:
    """Reads rows; nothing that stands in one of them is an error."""

    def __init__(self, timings: Timings) -> None:
        self._timings = timings

    def entry(self, current: Current, *, name: str | None = None) -> Entry | None:
        """Return the entry of a row, or of another name; None if it cannot be read."""
        try:
            return self._entry(current, name)
        except Misconfigured:
            return None

    def row(self, current: Current) -> ScheduleRow:
        """Return a row for people."""
        entry, problem = None, BY_CODE if current.by_code else None
        try:
            entry = self._entry(current)
            check_task(entry.task, self._timings.allow_list)
            check_running(current.definition.options, self._timings.allow_list)
        except Misconfigured as error:
            does = "cannot be read" if entry is None else "does not run"
            problem = f"{does}: {error}"
        return self.shown(current, entry, problem)

    def shown(
        self, current: Current, entry: Entry | None, problem: str | None
    ) -> ScheduleRow:
        """Return a row for people whose entry is known; None: it cannot be read."""
        wanted, words, next_due = current.definition, "", None
        if entry is not None:
            words = self._timings.words(wanted, current.once_at)
        executed_us = current.executed_us
        if entry is not None and executed_us is not None and not current.paused:
            next_due = _next(entry, executed_us, current.now_us)
        last_us = executed_us if current.ran else None
        return ScheduleRow(
            **{part: getattr(wanted, part) for part in PARTS},
            words=words,
            once_at=current.once_at,
            paused=current.paused,
            version=current.version,
            created_at=current.created_at,
            changed_at=current.changed_at,
            changed_by=current.changed_by,
            last_slot=None if last_us is None else from_us(last_us),
            next_due=next_due,
            done=current.done,
            declared_by_code=current.by_code,
            problem=problem,
        )

    def _entry(self, current: Current, name: str | None = None) -> Entry:
        wanted = current.definition
        once_at = current.once_at if wanted.once else None
        return self._timings.entry(wanted, once_at, name=name)


def _next(entry: Entry, executed_us: int, now_us: int) -> datetime | None:
    next_us = entry.next(executed_us, now_us)
    return None if next_us >= NEVER_US else from_us(next_us)


def in_utc(value: Any) -> Any:
    """Return a value of a row, an instant in UTC."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value
