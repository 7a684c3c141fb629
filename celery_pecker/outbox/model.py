"""What a row of the outbox holds. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import NamedTuple

TABLE = "pecker_outbox"


class Mode(enum.IntEnum):
    """How long a row of the outbox stays."""

    RELAY = 0
    """Until the broker has the message."""
    UNTIL_DONE = 1
    """Until the task has succeeded; each run comes as a message."""
    LOCAL = 2
    """Until the task has succeeded; a worker runs it without the broker."""


def mode_name(mode: int) -> str:
    """Return the name of a stored mode; of one that a newer version wrote, its number.

    Such a row is shown and counted: nothing of this version delivers or drops it.
    """
    known = {one.value: one.name.lower() for one in Mode}
    return known.get(mode, f"mode {mode}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message as Celery built it, in no transport's own form."""

    task: str
    task_id: str
    exchange: str
    routing_key: str
    priority: int | None
    content_type: str
    content_encoding: str
    declare: str | None
    """Queues and exchanges that Celery declares first, as JSON; None: none."""
    headers: str
    """As JSON; ``eta`` is null."""
    properties: str
    """As JSON."""
    body: bytes
    delay: float | None = None
    """Seconds from the recording on; None: due at once."""

    def after(self, delay: float | None) -> Message:
        """Return the same message, due after so many seconds."""
        return self if delay is None else replace(self, delay=delay)


class Row(NamedTuple):
    """A stored message, as its row has it."""

    id: int
    task: str
    task_id: str
    exchange: str
    routing_key: str
    priority: int | None
    content_type: str
    content_encoding: str
    declare: str | None
    headers: str
    properties: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Entry:
    """A message, and how it is to be recorded."""

    message: Message
    mode: Mode = Mode.RELAY
    key: str | None = None
    """While a row of this key waits, this one is not recorded."""
