"""A message whose connection broke while the worker had it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Disposition(StrEnum):
    """What becomes of a held message over the next connection."""

    OPEN = "open"
    """Not decided: the pool has not been asked yet."""
    KEPT = "kept"
    """The pool has it; its own acknowledgement will decide."""
    DONE = "done"
    """Acknowledged or rejected: forgotten by Redis."""
    BACK = "back"
    """Not started: first in its queue again."""
    LAST = "last"
    """Rejected by a run that asks for another one: last in its queue."""


SETTLED_BY_US = frozenset({Disposition.DONE, Disposition.BACK, Disposition.LAST})


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A message of a lost connection."""

    tag: str
    message: Any
    lost_at: float
    """Seconds since 1970, as kombu stamps deliveries: a later stamp is another's."""
    disposition: Disposition = Disposition.OPEN
    request: Any = None
    """Celery's request, if the message was handed to the pool."""
    recorded: bool = True
    """False if the connection broke between the fetch and the record in `unacked`."""
