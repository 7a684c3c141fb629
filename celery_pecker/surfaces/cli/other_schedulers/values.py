"""One schedule of another scheduler, and what it stores: instants, JSON, crontabs."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Any

from celery_pecker.kernel.declared import moment_of
from celery_pecker.kernel.errors import PeckerError


class NotImportable(PeckerError):
    """A schedule that cannot be imported; the text says why."""


@dataclass(slots=True, kw_only=True)
class ForeignSchedule:
    """A schedule as another scheduler stores it, in our words; what becomes of it."""

    name: str
    fields: dict[str, Any] = field(default_factory=dict)
    """Arguments of `Schedules.set`."""
    last_us: int | None = None
    """When it ran last, where that is known; once judged, if that is imported."""
    notes: list[str] = field(default_factory=list)
    """What is not imported although the schedule does, each with its reason."""
    problem: str | None = None
    """Why it cannot be imported at all."""
    verdict: str = "refused"
    """new, changed or same; code: this app's beat_schedule has it, and its last run
    alone is imported; refused: it is not imported, `problem` says for what reason."""
    changes: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    """Of each field that differs: what is stored, and what comes."""
    version: int = 0
    """Of what is stored; 0: nothing is."""

    def note(self, text: str) -> None:
        """Note something that is not imported, or is imported with a change."""
        self.notes.append(text)

    @property
    def writes(self) -> bool:
        """Whether the definition is stored anew."""
        return self.verdict in {"new", "changed"}

    def document(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "why": self.problem,
            "changes": {
                key: {"old": old, "new": new}
                for key, (old, new) in self.changes.items()
            },
            "notes": self.notes,
            "last_us": self.last_us,
        }


def instant(field: str, value: object, zone: tzinfo) -> datetime | None:
    """Return an instant in UTC; one that is stored without a zone is of this one.

    PostgreSQL gives a datetime; SQLite has the text that Django or SQLAlchemy wrote.
    """
    if value is None or value == "":
        return None
    moment = moment_of(value, zone)
    if moment is None:
        raise NotImportable(f"{field} is {value!r}; allowed is an instant")
    return moment.astimezone(UTC)


def decoded(field: str, text: object, empty: Any) -> Any:
    """Return the value of a column that holds JSON as text; an empty one: `empty`."""
    if text is None or text == "":
        return empty
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise NotImportable(
            f"{field} is {text!r}; allowed is JSON ({error})"
        ) from error


def crontab(*fields: Any) -> str:
    """Return five fields of Celery's crontab as one text.

    Minute, hour, day of the month, month, day of the week; each a text, a number or a
    list of numbers.
    """
    return " ".join(_field(one) for one in fields)


def _field(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(str(one) for one in value) or "*"
    # Admin forms let spaces through: "1, 15" is one field.
    return "".join(str("*" if value is None else value).split()) or "*"


def iso(moment: datetime | None) -> str | None:
    """Return an instant as text with its offset."""
    return None if moment is None else moment.isoformat()
