"""What people see of stored schedules: a row, and a change of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

BY_CODE = (
    "declared by code as well: the code's entry runs, and this row waits until no"
    " living scheduler declares the name"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    """A stored schedule. Instants are aware, UTC."""

    name: str
    task: str
    args: list[Any]
    kwargs: dict[str, Any]
    options: dict[str, Any]
    schedule: dict[str, Any]
    """As JSON: one key names its kind."""
    words: str
    """The schedule in a sentence."""
    policies: dict[str, Any]
    """timeout, delivery, misfire, grace and catch_up, as far as they were chosen."""
    run: str
    start: datetime | None
    end: datetime | None
    once: bool
    once_at: datetime | None
    paused: bool
    version: int
    created_at: datetime
    changed_at: datetime
    changed_by: str
    last_slot: datetime | None
    """The last slot that was won; None before the first and after a new schedule."""
    next_due: datetime | None
    """None where it is paused or has no slot left."""
    done: bool
    """Whether it was to run once, and its instant is over."""
    declared_by_code: bool
    problem: str | None
    """Why no scheduler runs it."""

    @property
    def state(self) -> str:
        """The state in a word: problem, done, paused or active."""
        if self.problem is not None:
            return "problem"
        if self.done:
            return "done"
        return "paused" if self.paused else "active"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of a stored schedule, or a pause of an entry of code."""

    id: int
    name: str
    version: int
    """That it made, or that was there; 0: an entry of code."""
    change: str
    """created, changed, removed, returned, renamed, paused or resumed."""
    changed_at: datetime
    changed_by: str
    definition: dict[str, Any] | None
    """From then on; None where it stayed."""
    other_name: str | None = None
    """Of a rename: the name before, or, of the name that went, the one since."""


Rows = list[ScheduleRow]
Changes = list[Change]
