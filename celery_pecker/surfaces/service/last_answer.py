"""Keep the last answer to a question that many ask at once; for one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Generic, TypeVar

from celery_pecker.kernel.clock import monotonic

Answer = TypeVar("Answer")


class LastAnswer(Generic[Answer]):
    """Ask once per interval, however many want to know.

    Args:
        ask: asks; what it raises is an answer, too.
        interval: seconds for which an answer holds, from before it was asked for.

    """

    def __init__(
        self,
        ask: Callable[[], Coroutine[object, object, Answer]],
        *,
        interval: float,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._ask = ask
        self._interval = interval
        self._clock = clock
        self._asked: asyncio.Task[Answer] | None = None
        self._at = 0.0

    async def get(self) -> Answer:
        """Return what was answered, or raise what was raised."""
        now, asked = self._clock(), self._asked
        if asked is None or (asked.done() and now - self._at >= self._interval):
            self._at = now
            self._asked = asked = asyncio.create_task(self._ask())
        return await asyncio.shield(asked)
