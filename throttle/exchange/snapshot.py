"""What a process knows of its databases between two answers of the store."""

from __future__ import annotations

from typing import NamedTuple

from throttle.model import STALE, Answer, Seen


class Snapshot(NamedTuple):
    """The last answer, and how old it is."""

    answer: Answer | None = None
    """None: there was none yet."""
    at: float = 0.0
    """When it was asked for, on the monotonic clock: before it was sent, so that
    nothing in the answer is older than we think."""
    away: bool = True
    """Whether the last try failed. An answer that came before stays good until it is
    stale."""

    def fresh(self, now: float) -> bool:
        """Return whether the answer may be acted upon at that moment."""
        return self.answer is not None and now - self.at <= STALE

    def seen(self, database: str) -> Seen | None:
        """Return what was last heard of the database, however old."""
        return None if self.answer is None else self.answer.databases.get(database)
