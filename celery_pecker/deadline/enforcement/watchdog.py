"""One thread that looks after others: it calls each watch at its instant."""

import heapq
import itertools
import logging
import os
import signal
import threading
from collections import deque
from typing import Protocol, Self

from celery_pecker.deadline.budget import current
from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.once_a_minute import OnceAMinute
from celery_pecker.kernel.wakeup import Wakeup

logger = logging.getLogger(__name__)


class Watch(Protocol):
    """What is to be done at an instant."""

    def due(self) -> float | None:
        """End the process: nothing else has helped."""


class Watchdog:
    """Calls each watch at its instant, on a thread of its own.

    Code that adds a watch may be interrupted in the middle, and must not take a lock
    along: so they only append to a queue and set a flag.
    """

    def __init__(self) -> None:
        self._added: deque[tuple[float, Watch]] = deque()
        self._wakeup = Wakeup()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._failed = OnceAMinute(logger, prefix="pecker: ", level=logging.ERROR)

    def start(self) -> None:
        """Start the thread; for code that cannot be interrupted yet."""
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._run, name="pecker-watchdog", daemon=True
                )
                self._thread.start()

    def add(self, at: float, watch: Watch) -> None:
        """Call the watch at that instant, or soon after."""
        self._added.append((at, watch))
        self._wakeup.wake()

    def _run(self) -> None:
        heap: list[tuple[float, int, Watch]] = []
        order = itertools.count()
        while True:
            self._wakeup.sleep(heap[0][0] - monotonic() if heap else None)
            while self._added:
                at, watch = self._added.popleft()
                heapq.heappush(heap, (at, next(order), watch))
            while heap and heap[0][0] <= monotonic():
                watch = heapq.heappop(heap)[2]
                # A watch that fails must not end the thread: no other would be called.
                following = self._failed.call("a watch of deadlines", None, watch.due)
                if following is not None:
                    heapq.heappush(heap, (following, next(order), watch))


WATCHDOG = Watchdog()

if hasattr(os, "register_at_fork"):  # a child has neither the thread nor its runs
    os.register_at_fork(after_in_child=WATCHDOG.__init__)  # type: ignore[misc]


class ProcessKiller:
    """Kills this process if the block has not ended a grace after its deadline."""

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._live = False

    def __enter__(self) -> Self:
        budget = current.get()
        if budget is not None:
            WATCHDOG.start()
            self._live = True
            WATCHDOG.add(budget.at + self._grace, self)
        return self

    def __exit__(self, *_: object) -> None:
        self._live = False

    def due(self) -> None:
        """End the process: nothing else has helped."""
        if not self._live:
            return
        logger.critical(
            "pecker: a run has not ended %g s after its deadline: process %s is killed",
            self._grace,
            os.getpid(),
        )
        os.kill(os.getpid(), signal.SIGKILL)
