"""What a worker does with messages that it may not run yet, broker by broker.

A held message is delivered and not acknowledged. Each broker has its own time limit for
that, and its own safe way to move a message elsewhere.

    *Redis*      holds as long as it is asked to (`renew`); moves within one script:
                 exactly once, also if the answer is lost
    *RabbitMQ*   closes the channel after 30 minutes, so what is held too long goes back
                 (`hand_back`); moves by a confirmed publish, then the acknowledgement:
                 a crash between the two delivers the message twice
    *others*     as RabbitMQ, without the confirmation

Prefetch. For each held message the worker may take one more. That addend is kept beside
Celery's own count, which is not touched: Celery cuts its count at
`worker_eta_task_limit`, sets it anew after a reconnect, and changes it with the pool.

Parking. A queue per database and source, ``<throttle_parking>.<database>.<queue>``.
Only workers that consume from the source take from it: others may not know the task. A
message keeps its body, headers, properties and delivery_info, so that a task that
retries itself goes where it came from.

All of it runs where Celery acknowledges: in the thread of the worker's loop. Nothing
outlives the connection: a new one has a new broker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from throttle.settings import Settings

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
        """Resume a paused queue, unless somebody cancelled it meanwhile."""
        ...

    def attend(self, databases: Collection[str]) -> None:
        """Consume the parking queues of these databases, and not those of others."""
        ...

    def queue_of(self, request: Request) -> str:
        """Return the queue that the message came from, or was parked from."""
        ...

    def was_parked(self, request: Request) -> bool:
        """Say whether the message came from a parking queue: it is not parked twice."""
        ...

    def stop(self) -> None:
        """Consume nothing any more, and leave the prefetch to Celery."""
        ...


def broker_of(consumer: Any, settings: Settings, callbacks: Callbacks) -> Broker:
    """Return what fits the connected consumer's transport; its tasks step is started.

    `consumer` is Celery's, with `task_consumer` and `qos`.
    """
    driver = consumer.connection.transport.driver_type
    # A worker on one broker does not load the client of another.
    if driver == "redis":
        from throttle.worker.brokers.redis import RedisBroker, records  # noqa: PLC0415

        if records(consumer):
            return RedisBroker(consumer, settings, callbacks)
    if driver == "amqp":
        from throttle.worker.brokers.amqp import AmqpBroker  # noqa: PLC0415

        return AmqpBroker(consumer, settings, callbacks)
    from throttle.worker.brokers.other import OtherBroker  # noqa: PLC0415

    return OtherBroker(consumer, settings, callbacks)
