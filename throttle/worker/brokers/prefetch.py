"""What is taken beside Celery's own prefetch, exactly."""

from __future__ import annotations

from typing import Any, Final

MOST: Final = 0xFFFF
"""Above it kombu turns the limit off, and a worker would take all there is."""


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
