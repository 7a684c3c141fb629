"""A few daemon threads and the queue before them. Greenlets where gevent patched.

Threads are started when there is work for them, so never before a worker of the kind
prefork has made its children; and what user code raises, SystemExit too, ends none.
"""

import threading
from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue
from typing import Generic, TypeVar

from celery_pecker.kernel import user_code

Work = TypeVar("Work")


class Threads(Generic[Work]):
    """Does what is put, first come first served, at most ``most`` at once."""

    def __init__(self, most: int, do: Callable[[Work], None], *, name: str) -> None:
        self._most = most
        self._do = do
        self._name = name
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._open = 0
        """Put and not done."""

    @property
    def running(self) -> int:
        """How many are being done now."""
        return min(self._open, self._most)

    @property
    def waiting(self) -> int:
        """How many wait for a thread."""
        return max(self._open - self._most, 0)

    def put(self, work: Work) -> None:
        """Do the work as soon as a thread is free."""
        with self._lock:
            self._open += 1
            if self._open > len(self._threads) and len(self._threads) < self._most:
                thread = threading.Thread(
                    target=self._serve,
                    name=f"{self._name}-{len(self._threads) + 1}",
                    daemon=True,
                )
                self._threads.append(thread)
                thread.start()
        self._queue.put(work)

    def stop(self) -> None:
        """End the threads when the queue is empty. Safe in a signal handler."""
        for _ in range(self._most):
            self._queue.put(None)

    def join(self, seconds: float, now: Callable[[], float]) -> bool:
        """Wait until all threads have left; return whether they have."""
        end = now() + seconds
        for thread in [*self._threads]:
            thread.join(max(end - now(), 0.0))
        return not any(thread.is_alive() for thread in self._threads)

    def _serve(self) -> None:
        while (work := self._queue.get()) is not None:
            # A context of its own: what one run sets in it is not there in the next.
            context = copy_context()
            user_code.call_logging_errors(
                f"a run on {self._name}", context.run, self._do, work
            )
            with self._lock:
                self._open -= 1
