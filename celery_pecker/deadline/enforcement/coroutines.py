"""Deadlines of coroutines: asyncio ends what waits."""

from __future__ import annotations

import asyncio
from types import TracebackType

from celery_pecker.deadline.budget import Budget, DeadlineExceeded
from celery_pecker.kernel.clock import monotonic


class Alarm:
    """Cancels the coroutine at its deadline, or holds back other cancellations."""

    __slots__ = ("_budget", "_held", "_outer", "_timer")

    def __init__(self, budget: Budget | None, outer: Budget | None) -> None:
        self._budget = budget
        self._outer = outer
        self._timer: asyncio.Timeout | None = None
        self._held: list[tuple[asyncio.Timeout, float]] = []

    async def begin(self) -> asyncio.Timeout | None:
        """Count from now on; return what counts, if anything new does."""
        if self._budget is None:
            return None
        if self._outer is not None and self._budget.at > self._outer.at:
            self._hold_back(self._budget.at)
            return None
        self._timer = asyncio.timeout_at(_in_the_loop(self._budget.at))
        await self._timer.__aenter__()
        return self._timer

    async def end(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Count no more; what asyncio cut off has exceeded its deadline."""
        for timer, instant in self._held:
            if not timer.expired():
                timer.reschedule(instant)
        if self._timer is None or self._budget is None:
            return
        try:
            await self._timer.__aexit__(kind, error, trace)
        except TimeoutError as over:
            if isinstance(over, DeadlineExceeded):
                raise
            raise self._budget.exceeded() from over

    def _hold_back(self, at: float) -> None:
        """Hold outer timers back until the shield's end."""
        budget, later = self._outer, _in_the_loop(at)
        while budget is not None:
            timer = budget.timer
            instant = None if timer is None else timer.when()
            if timer is not None and instant is not None and not timer.expired():
                timer.reschedule(max(instant, later))
                self._held.append((timer, instant))
            budget = budget.outer


def _in_the_loop(at: float) -> float:
    """Return a monotonic instant on the loop's own clock, which may be another."""
    return asyncio.get_running_loop().time() + (at - monotonic())
