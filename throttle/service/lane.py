"""Calls of the store, off the event loop, and no more of them than it can bear.

Who asks has given up after 150 ms. When the store hangs, questions pile up faster than
it lets go of them: what has waited so long that nobody listens any more is not asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from throttle.clock import Monotonic, monotonic
from throttle.errors import Away

Given = ParamSpec("Given")
Answer = TypeVar("Answer")

THREADS = 8
PATIENCE = 0.2
"""Seconds that a question may wait for a thread."""
MOST = 2_000
"""Questions that wait or are being asked."""


class Crowded(Away):
    """Too many questions at once: this one was not asked."""


class Lane:
    """Runs calls on threads of its own; for one event loop."""

    def __init__(
        self, *, threads: int = THREADS, most: int = MOST, clock: Monotonic = monotonic
    ) -> None:
        self._pool = ThreadPoolExecutor(threads, "throttle-service")
        self._most = most
        self._clock = clock
        self._in = 0
        self.crowded = 0
        """Questions that were not asked, since the start."""

    async def ask(
        self, call: Callable[Given, Answer], *args: Given.args, **kwargs: Given.kwargs
    ) -> Answer:
        """Return what the call answers, or raise what it raises, or Crowded."""
        if self._in >= self._most:
            self._refuse()
        came = self._clock()

        def asked() -> Answer:
            if self._clock() - came > PATIENCE:
                self._refuse()
            return call(*args, **kwargs)

        self._in += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, asked)
        finally:
            self._in -= 1

    def close(self) -> None:
        """Nothing more is asked; does not wait for what is."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _refuse(self) -> None:
        self.crowded += 1
        raise Crowded


class Presence:
    """Questions that came and are not answered yet; for one event loop."""

    def __init__(self) -> None:
        self._here = 0
        self._none = asyncio.Event()
        self._none.set()

    def came(self) -> None:
        """One more."""
        self._here += 1
        self._none.clear()

    def went(self) -> None:
        """One less."""
        self._here -= 1
        if self._here == 0:
            self._none.set()

    async def gone(self, within: float) -> bool:
        """Return whether all have their answer, after so many seconds at most."""
        if not self._here:
            return True
        try:
            await asyncio.wait_for(self._none.wait(), within)
        except TimeoutError:
            return False
        return True
