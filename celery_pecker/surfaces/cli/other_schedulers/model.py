"""One schedule of another scheduler, and what of it is not imported."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from celery_pecker.kernel.errors import PeckerError


class NotImportable(PeckerError):
    """A schedule that cannot be imported; the text says why."""


@dataclass(slots=True, kw_only=True)
class ForeignSchedule:
    """A schedule as another scheduler stores it, in our words."""

    name: str
    fields: dict[str, Any] = field(default_factory=dict)
    """Arguments of `Schedules.set`."""
    last_us: int | None = None
    """When it ran last, where that is known."""
    notes: list[str] = field(default_factory=list)
    """What is not imported although the schedule does, each with its reason."""
    problem: str | None = None
    """Why it cannot be imported at all."""

    def note(self, text: str) -> None:
        """Note something that is not imported, or is imported with a change."""
        self.notes.append(text)
