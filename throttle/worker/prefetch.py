"""How many messages more than Celery asks for a worker may have in hand.

Celery's own way (`qos.increment_eventually`) drifts: with `worker_eta_task_limit` rises
are cut off and falls are not, after a reconnect `worker_enable_prefetch_count_reduction`
sets the count anew, and once a fall has stopped at 1 the worker stays slow for ever. So
Celery's number is left alone, and ours is added where it is told to the broker.
"""

from __future__ import annotations

from functools import partial
from threading import Lock
from typing import Any

MOST = 0xFFFF
"""Above it kombu tells the broker that there is no bound at all."""


class Prefetch:
    """What is held is asked for again, exactly, so that other tasks pass.

    `add` and `drop` may be called on any thread; the broker is told by the consumer's
    loop, between two of its turns.
    """

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._lock = Lock()
        self._qos: Any = None
        self._telling = False
        self.more = 0
        """Messages more than Celery asks for."""

    def begin(self, *, elastic: bool = True) -> None:
        """A connection was made; nothing of it is held.

        Not `elastic`: the broker does not let a running consumer ask for more, as
        quorum queues, which know a count per consumer only (celery#10253).
        """
        self._qos = self._consumer.qos
        self._elastic = elastic
        self._qos.callback = partial(self._tell, self._qos.callback)
        self.more = 0

    def add(self, count: int = 1) -> int:
        """So many more may come; return by how many it really rose."""
        with self._lock:
            # 0: Celery asks for as many as there are
            if not self._elastic or not self._qos.value:
                return 0
            count = max(min(count, MOST - self._qos.value - self.more), 0)
            self.more += count
        if count:
            self._qos.prev = None  # kombu's way to know what the broker was not told
        if self._consumer.hub is None:
            self._settle()
        return count

    def drop(self, count: int = 1) -> None:
        """So many fewer may come; never fewer than Celery asks for."""
        with self._lock:
            self.more = max(self.more - count, 0)
        self._qos.prev = None

    def _settle(self) -> None:
        # An event loop tells the broker at each of its turns. Without one it would be
        # told when two seconds have passed without a message. Telling may itself read
        # messages, which are then held and ask for more: that is done by the outer
        # call, or a long rush would be as deep as it is long.
        if self._telling:
            return
        self._telling = True
        try:
            while self._qos.prev != self._qos.value:
                self._qos.update()
        finally:
            self._telling = False

    def _tell(self, callback: Any, prefetch_count: int) -> None:
        if prefetch_count:
            prefetch_count = min(prefetch_count + self.more, MOST)
        callback(prefetch_count=prefetch_count)
