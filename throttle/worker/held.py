"""A request that waits in its worker, and where its traffic goes."""

from __future__ import annotations

from dataclasses import dataclass

from throttle.model import Target
from throttle.worker.brokers import broker


@dataclass(slots=True, eq=False, kw_only=True, weakref_slot=True)
class Held(broker.Held):
    """A request, and what was known of it when it came."""

    target: Target

    @property
    def task(self) -> str:
        """Return the name of its task."""
        return str(self.request.task.name)

    @property
    def size(self) -> int:
        """Return the bytes of the message's body."""
        return len(self.request.body or b"")
