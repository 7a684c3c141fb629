"""What people see of stored schedules: a row, and a change of it. Pure."""

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

BY_CODE = (
    "declared by code as well: the code's entry runs, and this row waits until no"
    " living scheduler declares the name"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A stored schedule as people define it, checked."""

    name: str
    task: str
    args: list[Any]
    kwargs: dict[str, Any]
    options: dict[str, Any]
    schedule: dict[str, Any]
    """As JSON: one key names its kind."""
    policies: dict[str, Any]
    """timeout, delivery, misfire, grace and catch_up, as far as they were chosen."""
    run: str
    start: datetime | None
    end: datetime | None
    once: bool

    def document(self) -> dict[str, Any]:
        """Return it as JSON, for the history."""
        plain = asdict(self)
        del plain["name"]
        for key in ("start", "end"):
            plain[key] = plain[key] and plain[key].isoformat()
        return plain

    @property
    def timing(self) -> tuple[object, ...]:
        """What decides when it is due: where an edit changes it, slots count anew."""
        when = json.dumps(self.schedule, sort_keys=True)
        return when, self.start, self.end, self.once


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow(Definition):
    """A stored schedule. Instants are aware, UTC."""

    words: str
    """The schedule in a sentence."""
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
