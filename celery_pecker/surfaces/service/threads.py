"""Run calls that block on threads, off the event loop, and only so many of them.

When a store hangs, requests pile up faster than it answers them. A request that has
waited for longer than its client listens is refused, not run. What many ask at once is
asked once (`LastAnswer`).
"""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from typing import Generic, ParamSpec, TypeVar

from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.errors import PeckerError

Options = ParamSpec("Options")
Answer = TypeVar("Answer")

THREADS = 8
MOST = 2_000
"""Calls that wait or run."""


class Busy(PeckerError):
    """Too many requests at once: this one was not run."""


@dataclass
class Threads:
    """Run calls on threads of its own; for one event loop."""

    _: KW_ONLY
    wait: float
    """Seconds that a call may wait for a thread."""
    threads: int = THREADS
    """How many calls run at once."""
    most: int = MOST
    """How many calls wait or run at most."""
    refusal: Callable[[], Exception] = Busy
    """Makes the error of a call that is not run."""
    clock: Callable[[], float] = monotonic
    refused: int = 0
    """Calls that were not run, since the start."""
    _in: int = 0

    def __post_init__(self) -> None:
        self._pool = ThreadPoolExecutor(self.threads, "service")

    async def run(
        self,
        call: Callable[Options, Answer],
        *args: Options.args,
        **kwargs: Options.kwargs,
    ) -> Answer:
        """Return what the call returns, or raise what it raises, or the refusal."""
        if self._in >= self.most:
            self._refuse()
        came = self.clock()

        def asked() -> Answer:
            if self.clock() - came > self.wait:
                self._refuse()
            return call(*args, **kwargs)

        self._in += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, asked)
        finally:
            self._in -= 1

    def close(self) -> None:
        """Run nothing more; do not wait for what runs."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _refuse(self) -> None:
        self.refused += 1
        raise self.refusal()


class InFlight:
    """Count requests that are not answered yet; for one event loop."""

    def __init__(self) -> None:
        self.count = 0
        self._none = asyncio.Event()
        self._none.set()

    def begin(self) -> None:
        """Count one more."""
        self.count += 1
        self._none.clear()

    def end(self) -> None:
        """Count one less."""
        self.count -= 1
        if self.count == 0:
            self._none.set()

    async def wait(self, within: float) -> None:
        """Wait until all have their answer, so many seconds at most."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._none.wait(), within)


@dataclass
class LastAnswer(Generic[Answer]):
    """Ask once per interval, however many want to know."""

    ask: Callable[[], Coroutine[object, object, Answer]]
    """Asks; what it raises is an answer, too."""
    _: KW_ONLY
    interval: float
    """Seconds for which an answer holds, from before it was asked for."""
    clock: Callable[[], float] = monotonic
    _asked: asyncio.Task[Answer] | None = None
    _at: float = 0.0

    async def get(self) -> Answer:
        """Return what was answered, or raise what was raised."""
        now, asked = self.clock(), self._asked
        if asked is None or (asked.done() and now - self._at >= self.interval):
            self._at = now
            self._asked = asked = asyncio.create_task(self.ask())
        return await asyncio.shield(asked)
