"""Which slot a run is of, by which epoch, until when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from celery_pecker.kernel.clock import to_us


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """One run of one slot. Instants are aware, UTC, by the database's clock."""

    name: str
    """The entry's name."""
    due_at: datetime
    """The slot's instant."""
    era: int
    """How often the database's clock was found to have stepped back."""
    epoch: int
    """The fencing token: a newer run of this entry has a higher one."""
    deadline: datetime | None
    """When the run must have ended; None: it may take as long as it likes."""
    attempt: int = 0
    """Which retry of the task it is, from 0."""
    schema: str = "public"
    """The PostgreSQL schema that holds the entry."""
    inherited: bool = False
    """Whether this task is no run itself but was sent by one."""

    @property
    def due_us(self) -> int:
        """The slot's instant in whole microseconds since 1970."""
        return to_us(self.due_at)
