"""A held message, and what a hold needs of a broker.

Prefetch, queues that pause, parking, renewals.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from kombu.common import ignore_errors

from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.once_a_minute import OnceAMinute
from throttle.model import Target
from throttle.settings import Settings

logger = logging.getLogger("throttle")

REQUEUE_TIMEOUT = 3.0
"""Seconds: less than an orchestrator waits before it kills."""
MOST: Final = 0xFFFF
"""Above it kombu turns the limit off, and a worker would take all there is."""

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


class Prefetch:
    """An addend to the prefetch of one connection. Threads may share it.

    Celery's count itself stays as it is. Were ours within it, an increment cut at
    `worker_eta_task_limit` would be followed by a decrement that is not, down to a
    prefetch of 1 for ever; and Celery sets the count anew as it recovers from a lost
    connection.
    """

    def __init__(self, consumer: Any, *, elastic: bool) -> None:
        self._qos = qos = consumer.qos
        self._loop = consumer.hub
        self._elastic = elastic
        self._send = qos.callback
        qos.callback = self._send_count
        self.extra = 0
        """What is taken beside Celery's count."""

    def rise(self, count: int) -> int:
        """Take so many more from the loop's next turn on; return how many."""
        with self._qos._mutex:  # noqa: SLF001 — kombu's own, for all that change it
            if not self._elastic or not self._qos.value:
                return 0  # cannot be changed, or there is no limit to raise
            return self._change(max(min(count, MOST - self._qos.value - self.extra), 0))

    def fall(self, count: int) -> None:
        """Take so many fewer, but never less than Celery's own count."""
        with self._qos._mutex:  # noqa: SLF001
            self._change(-min(count, self.extra))

    def end(self) -> None:
        """Send Celery's count alone from now on."""
        with self._qos._mutex:  # noqa: SLF001
            self._qos.callback = self._send
            self._change(-self.extra)

    def _change(self, by: int) -> int:
        if by:
            self.extra += by
            # The loop sends the count when it differs from the one sent last.
            self._qos.prev = None
        return by

    def _send_count(self, prefetch_count: int) -> None:
        sent = self._tell(prefetch_count)
        # While this is sent to RabbitMQ, messages come in and may be held. kombu notes
        # as sent what was asked before: a worker that holds all it may have would never
        # take another one. A loop is to ask once more at its next turn: if not, all
        # there is would come in within this one.
        if self._loop is not None:
            if sent != self.extra:
                self._loop.call_soon(self._ask)
            return
        while sent != self.extra:
            sent = self._tell(prefetch_count)

    def _tell(self, prefetch_count: int) -> int:
        extra = self.extra
        more = min(prefetch_count + extra, MOST) if prefetch_count else 0
        self._send(prefetch_count=more)
        return extra

    def _ask(self) -> None:
        self._qos.prev = None


PARKED = "throttle_parked"
"""In the delivery_info of a message that came from parking: its source queue."""


class Parking(NamedTuple):
    """Where messages of one database and one source queue wait."""

    database: str
    queue: str
    """The source."""
    name: str


class Broker:
    """Consumes beside Celery's task consumer, over the same channel.

    One that cannot be asked for more time: a hold ends by being given back.
    """

    elastic: bool
    """Whether more can be taken while messages are held. If not (quorum queues, a
    RabbitMQ without global QoS), what cannot be held within the prefetch is parked."""
    hold_timeout: float | None
    """Seconds that a message may be held; None: as long as it is renewed."""
    renewal: float | None = None
    """Seconds between two renewals of a held message; None: there is none."""
    smaller_first = False
    """Whether a smaller number of `priority` goes before a greater one."""

    def __init__(
        self,
        consumer: Any,
        settings: Settings,
        callbacks: Callbacks,
    ) -> None:
        self._once = OnceAMinute(logger, prefix="throttle: ")
        self._consumer = consumer
        self.elastic = self._is_elastic()
        self.hold_timeout = settings.hold_timeout
        self._callbacks = callbacks
        self._name = settings.parking
        self._errors: tuple[type[BaseException], ...] = (
            *consumer.connection_errors,
            *consumer.channel_errors,
        )
        self._tasks = consumer.task_consumer
        self._channel = consumer.task_consumer.channel
        self.prefetch = Prefetch(consumer, elastic=self.elastic)
        self._paused: dict[str, str] = {}
        """Consumer tags by queue."""
        self._attended: dict[str, Parking] = {}
        """Parking queues that are consumed, by consumer tag."""
        self._queues: dict[tuple[str, str], str] = {}
        self._prepare()

    def _is_elastic(self) -> bool:
        return True

    def _prepare(self) -> None:
        """Prepare what is of this kind of broker."""

    # Where a message is from

    def queue_of(self, request: Request) -> str:
        """Return the queue that the message came from, or was parked from."""
        info = request.message.delivery_info
        if PARKED in info:
            return str(info[PARKED])
        route = (str(info.get("exchange") or ""), str(info.get("routing_key") or ""))
        if route not in self._queues:
            self._queues[route] = self._consumed_queue(*route)
        return self._queues[route]

    def was_parked(self, request: Request) -> bool:
        """Return whether the message came from a parking queue: never parked twice."""
        return PARKED in request.message.delivery_info

    def _consumed_queue(self, exchange: str, key: str) -> str:
        for queue in self._tasks.queues:
            if (queue.exchange.name, queue.routing_key) == (exchange, key):
                return str(queue.name)
        bound = self._bound(exchange, key)
        consumed = {queue.name for queue in self._tasks.queues}
        return next((name for name in bound if name in consumed), key)

    def _bound(self, exchange: str, key: str) -> list[str]:
        return list(self._channel._lookup(exchange, key))  # noqa: SLF001 — kombu's way

    # Queues that serve one database

    def pause(self, queue: str) -> None:
        """Pause a queue: take nothing more but what is on its way."""
        tag = self._tasks._active_tags.get(queue)  # noqa: SLF001 — kombu has no asking
        if tag is not None and queue not in self._paused:
            self._paused[queue] = tag
            self._cancel(queue, tag)

    def resume(self, queue: str) -> None:
        """Resume a paused queue, unless it was cancelled."""
        tag = self._paused.pop(queue, None)
        # Another tag, or none: `celery control cancel_consumer`, `add_consumer`.
        if tag is not None and self._tasks._active_tags.get(queue) == tag:  # noqa: SLF001
            self._consume(queue, tag, self._tasks._receive_callback)  # noqa: SLF001

    # Parking

    def attend(self, databases: Collection[str]) -> None:
        """Consume the parking queues of these databases, and not those of others."""
        for tag, parking in list(self._attended.items()):
            if parking.database not in databases:
                del self._attended[tag]
                self._cancel(parking.name, tag)
        for parking in self._parkings(databases):
            tag = f"throttle-{parking.name}"
            if tag not in self._attended and self._exists(parking):
                self._attended[tag] = parking
                self._consume(parking.name, tag, partial(self._arrived, parking))

    def parking_of(self, database: str, queue: str) -> Parking:
        """Return where messages of a database wait that came from a queue."""
        return Parking(database, queue, f"{self._name}.{database}.{queue}")

    def _parkings(self, databases: Collection[str]) -> Iterator[Parking]:
        for queue in self._tasks.queues:
            for database in databases:
                yield self.parking_of(database, queue.name)

    def _exists(self, parking: Parking) -> bool:
        return True

    def _arrived(self, parking: Parking, message: Any) -> None:
        """Pass a parked message on as all others, with the name of its source."""
        # A dictionary of its own: kombu gives back what the old one says
        message.delivery_info = self._source(message) | {PARKED: parking.queue}
        self._tasks._receive_callback(message)  # noqa: SLF001 — checks what it accepts

    def _source(self, message: Any) -> dict[str, Any]:
        return dict(message.delivery_info)

    def stop(self) -> None:
        """Consume nothing any more, and leave the prefetch to Celery.

        Also if the connection is lost, or the broker does not answer.
        """
        self.prefetch.end()
        for tag, parking in self._attended.items():
            with suppress(*self._errors):
                self._cancel(parking.name, tag)
        self._attended.clear()

    # What is held

    def renew(self, held: Sequence[Held]) -> bool:
        """Begin the hold of these anew at the broker; report which are gone.

        Returns whether it answered for all of them.
        """
        return True

    def hand_back(self, held: Held) -> None:
        """Return it to its queue; report whether it went.

        Not for queues that count how often a message comes back: a quorum queue drops
        it at last. Park it instead.
        """
        try:
            self._return(held.request.message)
        except self._errors as error:
            self._once.warning("hand back", "a message stays held: %s", error)
            self._callbacks.kept(held)
        else:
            held.request.acknowledged = True
            self._callbacks.gone(held)

    def requeue(self, held: Sequence[Held]) -> int:
        """Return these, in the order they came, to their queues; return how many.

        The worker ends: at once, not when its tasks are done. Celery gives back what is
        unacknowledged as it closes its channel. On a warm shutdown that is after the
        last running task, which may take an hour, and a rush would wait for it. What
        cannot be returned now is redelivered then.
        """
        until = monotonic() + REQUEUE_TIMEOUT
        count = 0
        with ignore_errors(self._consumer):
            # Or they would be redelivered to this worker
            self._tasks.cancel()
            self._end_fetch()
            for one in reversed(held):
                self.give_back(one.request.message)
                one.request.acknowledged = True  # whatever holds on to it
                count += 1
                if monotonic() > until:
                    break
        return count

    def _end_fetch(self) -> None:
        """Wait for a fetch that is on its way."""

    def give_back(self, message: Any) -> None:
        """Return a message to its queue, in front: the worker ends."""
        message.reject(requeue=True)

    park: Callable[[str, Sequence[Held]], None]
    """Sends these to the parking queue of a database; reports which arrived."""
    _return: Callable[[Any], None]

    # The channel's

    _cancel: Callable[[str, str], None]

    def _consume(self, queue: str, tag: str, callback: Any) -> None:
        self._channel.basic_consume(
            queue, no_ack=False, callback=callback, consumer_tag=tag
        )


class OtherBroker(Broker):
    """What kombu's virtual transports share.

    A message is put where it shall be, then taken away: a crash between the two
    delivers it twice.
    """

    def _prepare(self) -> None:
        self._made: set[str] = set()

    def _return(self, message: Any) -> None:
        message.requeue()

    def park(self, database: str, held: Sequence[Held]) -> None:
        """Move these to the parking queue, or keep them; report which."""
        for one in held:
            message = one.request.message
            parking = self.parking_of(database, self.queue_of(one.request))
            try:
                self._make(parking)
                self._channel._put(parking.name, message._raw)  # noqa: SLF001
                message.ack()
            except self._errors as error:
                self._once.warning("park", "a message stays held: %s", error)
                self._callbacks.kept(one)
            else:
                one.request.acknowledged = True
                self._callbacks.parked(one)

    def _make(self, parking: Parking) -> None:
        if parking.name not in self._made:
            self._channel.queue_declare(queue=parking.name)
            self._made.add(parking.name)

    def _exists(self, parking: Parking) -> bool:
        self._make(parking)
        return True

    def _cancel(self, queue: str, tag: str) -> None:
        callback = self._channel.connection._callbacks.get(queue)  # noqa: SLF001
        self._channel.basic_cancel(tag)
        if callback is not None:  # what is on its way comes to us
            self._channel.connection._callbacks[queue] = callback  # noqa: SLF001
