"""Held tasks that have a `rate_limit` too: let through, they still keep its pace.

Celery takes the token of such a task when it arrives. If it is held then, the token is
spent, and when its database opens a thousand of its kind would start at once. So they
need a token each, of Celery's own bucket, when they leave; a newcomer's token is used
for the one that has waited longest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from threading import RLock
from typing import Any

from throttle.worker.brokers.held import Held


class Pace:
    """Tasks whose database would let them pass and whose `rate_limit` does not yet."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._lock = RLock()
        """Where there is no event loop, a timer's thread takes out what the consumer's
        puts in."""
        self.waiting: dict[str, deque[Held]] = {}
        """By their task; one that none waits of is not in it."""

    def __len__(self) -> int:
        return sum(len(line) for line in self.waiting.values())

    def __iter__(self) -> Iterator[Held]:
        for line in list(self.waiting.values()):
            yield from list(line)

    def count(self, database: str) -> int:
        """Return how many wait for a database."""
        with self._lock:
            return sum(one.target.database == database for one in self)

    def limits(self, held: Held) -> bool:
        """Return whether the task has to wait for its `rate_limit`."""
        bucket = self._bucket(held.task)
        if bucket is None:
            return False
        return held.task in self.waiting or bucket.expected_time(1) > 0

    def pay(self, held: Held) -> None:
        """Use a token of the task."""
        bucket = self._bucket(held.task)
        if bucket is not None:
            bucket.can_consume(1)

    def add(self, held: Held) -> None:
        """Let it wait, behind those of its task."""
        with self._lock:
            self.waiting.setdefault(held.task, deque()).append(held)

    def remove(self, held: Held) -> bool:
        """Remove it; return whether it waited."""
        with self._lock:
            line = self.waiting.get(held.task)
            if line is None or held not in line:
                return False
            line.remove(held)
            if not line:
                del self.waiting[held.task]
            return True

    def clear(self) -> None:
        """Remove all that waits."""
        self.waiting.clear()

    def due(self, admit: Callable[[Held], bool]) -> Iterator[Held]:
        """Yield those that their `rate_limit` lets pass, and that are admitted."""
        for task in list(self.waiting):
            while True:
                bucket = self._bucket(task)
                if bucket is not None and bucket.expected_time(1) > 0:
                    break
                held = self.first(task, admit)
                if held is None:
                    break
                if bucket is not None:
                    bucket.can_consume(1)
                yield held

    def first(self, task: str, admit: Callable[[Held], bool]) -> Held | None:
        """Return the one of that task that has waited longest, if it is admitted."""
        with self._lock:
            line = self.waiting.get(task)
            if not line or not admit(line[0]):
                return None
            held = line.popleft()
            if not line:
                del self.waiting[task]
            return held

    def _bucket(self, task: str) -> Any:
        if self._consumer.disable_rate_limits:
            return None
        return self._consumer.task_buckets[task]
