"""A request whose message waits here, delivered and not acknowledged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from throttle.clock import now
from throttle.model import Target


def _stamp() -> float:
    return now().timestamp()


@dataclass(slots=True, eq=False, weakref_slot=True)
class Held:
    """A request, and what was found out about it when it came."""

    request: Any
    """Celery's."""
    target: Target
    since: float = field(default_factory=_stamp)
    """Seconds since 1970 when its message was last known to be ours: a later stamp on
    Redis is another worker's."""
    raised: int = 0
    """How much was added to the prefetch for it: 0 or 1."""

    @property
    def task(self) -> str:
        """The name of its task."""
        return str(self.request.task.name)

    @property
    def size(self) -> int:
        """Bytes of the message's body."""
        return len(self.request.body or b"")
