"""Other brokers that kombu knows: a message is put where it shall be, then taken away.

A crash between the two delivers it twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from throttle.worker.brokers.broker import Broker, Parking
from throttle.worker.brokers.held import Held


class OtherBroker(Broker):
    """What kombu's virtual transports share."""

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
