"""What a stored schedule means to a replica: built by the given function."""

from __future__ import annotations

from typing import Protocol

from celery_pecker.schedules.engine.model import Entry, StoredSchedule


class Definitions(Protocol):
    """What a stored row means: the entry, and its message on the way out."""

    def entry(self, row: StoredSchedule) -> Entry:
        """Return the entry; raise whatever is wrong with the row."""
        ...

    def build(self, row: StoredSchedule) -> None:
        """Build the message; raise BrokerUnavailable, or what is wrong with the row."""
        ...

    def forget(self, name: str) -> None:
        """Forget the message."""
        ...

    def note_other_definitions(self) -> None:
        """Note that there are schedules for the other kind of replicas."""
        ...
