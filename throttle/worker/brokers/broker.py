"""What a hold needs of a broker, and what the broker calls back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Request = Any
"""Celery's request."""


@dataclass(slots=True, eq=False)
class Held:
    """A request whose message waits in this worker, delivered and not acknowledged."""

    request: Request
    since: float
    """Seconds since 1970 when its message was last known to be ours: a later stamp on
    Redis is another worker's."""
    raised: int = 0
    """How much was added to the prefetch for it: 0 or 1."""


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


class Broker(Protocol):
    """The part of a broker that a hold needs."""

    elastic: bool
    """Whether more can be taken while messages are held. If not (quorum queues, a
    RabbitMQ without global QoS), what cannot be held within the prefetch is parked."""
    hold_timeout: float | None
    """Seconds that a message may be held; None: as long as it is renewed."""
    renewal: float | None
    """Seconds between two renewals of a held message; None: there is none."""

    def raise_prefetch(self, count: int = 1) -> int:
        """Take so many more messages; return by how many it really rose."""
        ...

    def lower_prefetch(self, count: int = 1) -> None:
        """Take so many fewer; not below what was there before the first rise."""
        ...

    def renew(self, held: Sequence[Held]) -> bool:
        """Begin the hold of these anew at the broker; report which are gone.

        Returns whether it answered for all of them.
        """
        ...

    def hand_back(self, held: Sequence[Held]) -> None:
        """Return these to their queues; report which.

        Not for queues that count how often a message comes back: a quorum queue drops
        it at last. Park it instead.
        """
        ...

    def park(self, database: str, held: Sequence[Held]) -> None:
        """Send these to the parking queue; report which arrived."""
        ...

    def pause(self, queue: str) -> None:
        """Pause a queue: take nothing more but what is on its way."""
        ...

    def resume(self, queue: str) -> None:
        """Resume a paused queue, unless it was cancelled."""
        ...

    def attend(self, databases: Collection[str]) -> None:
        """Consume the parking queues of these databases, and not those of others."""
        ...

    def queue_of(self, request: Request) -> str:
        """Return the queue that the message came from, or was parked from."""
        ...

    def was_parked(self, request: Request) -> bool:
        """Return whether the message came from a parking queue: never parked twice."""
        ...

    def stop(self) -> None:
        """Consume nothing any more, and leave the prefetch to Celery."""
        ...
