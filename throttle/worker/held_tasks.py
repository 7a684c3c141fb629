"""The tasks that this worker holds: they have come, and are not in the pool yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any

from celery.worker import state as _state

from throttle.admission import Accounts
from throttle.clock import Monotonic, monotonic
from throttle.hold import Hold
from throttle.worker import scheduled
from throttle.worker.brokers.broker import Broker
from throttle.worker.brokers.held import Held
from throttle.worker.pace import Pace
from throttle.worker.revoked_or_expired import RevokedOrExpired

state: Any = _state  # its stubs lack half of it

PERIOD = 0.05
"""Seconds between two looks at what is held."""


class HeldTasks:
    """Those in the hold of their database, and those in the line of a `rate_limit`.

    For each of them one more message is fetched, and a timer runs while there are any.
    """

    def __init__(
        self,
        consumer: Any,
        hold: Hold[Held],
        accounts: Accounts,
        *,
        turn: Callable[[], object],
        clock: Monotonic = monotonic,
    ) -> None:
        """Take the consumer, whose timer calls `turn` to look at what is held."""
        self.hold = hold
        self.pace = Pace(consumer)
        self.ended = RevokedOrExpired(self.__iter__, self.remove, clock)
        self.broker: Broker | None = None
        """Of the connection that they come by."""
        self.prefetch_more = 0
        """For so many of them another message is fetched."""
        self._consumer = consumer
        self._accounts = accounts
        self._turn = turn
        self._armed = False
        self._arming = Lock()
        self._sending = False

    def __len__(self) -> int:
        return len(self.hold) + len(self.pace)

    def __iter__(self) -> Iterator[Held]:
        yield from self.hold.items()
        yield from self.pace

    def begin(self, broker: Broker) -> None:
        """Take the broker of a new connection."""
        self.broker = broker

    def clear(self) -> None:
        """Hold nothing any more: the broker redelivers what was held."""
        self.broker = None
        self.hold.clear()
        self.pace.clear()
        self.ended.clear()
        scheduled.clear()
        self.prefetch_more = 0
        with self._arming:  # Celery cancels what was set while it connected in vain
            self._armed = False

    # One comes

    def add(self, held: Held) -> None:
        """Hold it until its database lets it through."""
        self._count(held)
        self._put(held)

    def add_to_pace(self, held: Held) -> None:
        """Hold it behind those that wait for the `rate_limit` of its task."""
        self._count(held)
        self.pace.add(held)

    def keep(self, held: Held) -> None:
        """Hold what could not be parked, and fetch nothing more for it."""
        self.ended.add(held)
        self._put(held)

    def _put(self, held: Held) -> None:
        priority = held.request.delivery_info.get("priority") or 0
        greater_first = self.broker is not None and not self.broker.smaller_first
        self.hold.put(
            held.target,
            held,
            size=held.size,
            priority=-priority if greater_first else priority,
            cost=self._accounts.cost(held.target, held.task),
        )
        self.arm(PERIOD)

    def _count(self, held: Held) -> None:
        scheduled.add(held.request)
        self.ended.add(held)
        if self.broker is not None:
            held.raised = self.broker.prefetch.rise(1)
            self.prefetch_more += held.raised
        if self._consumer.hub is None:
            self._send_prefetch()

    def _send_prefetch(self) -> None:
        # An event loop sends it at each of its turns. Without one it would be
        # sent when two seconds have passed without a message. Sending may itself read
        # messages, which are then held and ask for more: that is done by the outer
        # call, or a long rush would be as deep as it is long.
        if self._sending:
            return
        self._sending = True
        qos = self._consumer.qos
        try:
            while qos.prev != qos.value:
                qos.update()
        finally:
            self._sending = False

    # One leaves

    def release(self, held: Held) -> None:
        """Reserve one that was taken out: it goes to the pool now."""
        self._lower(held)
        scheduled.reserve(held.request)

    def remove(self, held: Held) -> None:
        """Remove it, if it is held."""
        if self.hold.remove(held) or self.pace.remove(held):
            self._lower(held)

    def forget(self, held: Held) -> None:
        """Remove it from Celery's lists too: it must not run in this worker.

        It is another worker's by now, or in a parking queue.
        """
        self.remove(held)
        state.reserved_requests.discard(held.request)
        scheduled.requests.discard(held.request)
        if state.requests.get(held.request.id) is held.request:
            del state.requests[held.request.id]

    def _lower(self, held: Held) -> None:
        if held.raised and self.broker is not None:
            self.broker.prefetch.fall(held.raised)
            self.prefetch_more -= held.raised
        held.raised = 0

    # When they are looked at

    def arm(self, delay: float) -> None:
        """Have them looked at after so long, unless that is to be done already."""
        with self._arming:
            if self._armed:
                return
            self._armed = True
        self._consumer.timer.call_after(delay, self._fire)

    def _fire(self) -> None:
        self._armed = False
        self._turn()
