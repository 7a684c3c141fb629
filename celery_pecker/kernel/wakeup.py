"""Sleep that another thread, or a signal handler, can end.

``queue.SimpleQueue.get(timeout=…)`` is no such sleep: where the time is over before
CPython holds the queue's own lock, it goes on with a negative rest and waits for ever.
A wait of microseconds, or a process that is frozen at that point, is enough. A lock
that is acquired with a timeout ends in time.
"""

import threading


class Wakeup:
    """A flag on which one thread sleeps and which any thread sets.

    Wake-ups are not counted: one sleep takes all that came before it ended.
    """

    def __init__(self) -> None:
        self._asleep = threading.Lock()
        self._asleep.acquire()

    def wake(self) -> None:
        """End the current sleep, or the next one at once.

        Re-entrant, never waits, and safe in a signal handler.
        """
        try:
            self._asleep.release()
        except RuntimeError:  # it is set already
            return

    def sleep(self, seconds: float | None = None) -> bool:
        """Sleep until `wake` is called; return whether it was.

        For `seconds` at most; None sleeps without an end, zero or less only looks.
        """
        if seconds is None:
            return self._asleep.acquire()
        return self._asleep.acquire(timeout=min(max(seconds, 0.0), _MOST))


_MOST = threading.TIMEOUT_MAX
