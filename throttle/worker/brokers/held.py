"""A message that is held, and what a broker calls back about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from throttle.model import Target

Request = Any
"""Celery's request."""


@dataclass(slots=True, eq=False, kw_only=True, weakref_slot=True)
class Held:
    """A request whose message waits in this worker, delivered and not acknowledged."""

    request: Request
    since: float
    """Seconds since 1970 when its message was last known to be ours: a later stamp on
    Redis is another worker's."""
    raised: int = 0
    """How much was added to the prefetch for it: 0 or 1."""
    target: Target
    """Where its traffic goes."""

    @property
    def task(self) -> str:
        """Return the name of its task."""
        return str(self.request.task.name)

    @property
    def size(self) -> int:
        """Return the bytes of the message's body."""
        return len(self.request.body or b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """What a broker calls for each message it was handed; perhaps later."""

    parked: Callable[[Any], None]
    """It is in the parking queue, and no longer ours: forget the request."""
    kept: Callable[[Any], None]
    """It could not be moved and is still ours."""
    gone: Callable[[Any], None]
    """It is another worker's by now, or was returned: forget the request, it must
    not run in this one."""
