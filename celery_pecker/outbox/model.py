"""What a row of the outbox holds. Pure."""

import enum
from dataclasses import dataclass

from celery_pecker.brokers.stored_message import Message

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


@dataclass(frozen=True, slots=True)
class Entry:
    """A message, and how it is to be recorded."""

    message: Message
    mode: Mode = Mode.RELAY
    key: str | None = None
    """While a row of this key waits, this one is not recorded."""
