"""Blocks of code under a deadline: `within`, `until`, `shield`, `detached`.

Each is a context manager, an async one, and a decorator of functions and coroutines.

A coroutine under one is ended by asyncio where it waits.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import ContextDecorator
from contextvars import Token
from dataclasses import replace
from datetime import timedelta
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any, Self, TypeVar, cast

from celery_pecker.deadline import interrupter
from celery_pecker.deadline.budget import Budget, DeadlineExceeded, current, seconds_of
from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.errors import Misconfigured


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

    async def end(self, *raised: Any) -> None:
        """Count no more; what asyncio cut off has exceeded its deadline."""
        for timer, instant in self._held:
            if not timer.expired():
                timer.reschedule(instant)
        if self._timer is None or self._budget is None:
            return
        try:
            await self._timer.__aexit__(*raised)
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


Change = Callable[[Budget | None], Budget | None]
Function = TypeVar("Function", bound=Callable[..., Any])
Answer = TypeVar("Answer")


class Scope(ContextDecorator):
    """A block in which another deadline is in force, or none."""

    __slots__ = ("_alarm", "_change", "_token", "budget")

    def __init__(self, change: Change) -> None:
        self._change = change
        self._token: Token[Budget | None] | None = None
        self._alarm: Alarm | None = None
        self.budget: Budget | None = None
        """The deadline in force inside."""

    def _recreate_cm(self) -> "Scope":
        """Return a block of its own for each call of a decorated function."""
        return Scope(self._change)

    def __call__(self, function: Function) -> Function:
        """Put each call of a function, or each run of a coroutine, in such a block."""
        whole: Any = function
        if iscoroutinefunction(function):

            @wraps(whole)
            async def bounded(*args: Any, **kwargs: Any) -> Any:
                async with self._recreate_cm():
                    return await whole(*args, **kwargs)

            return cast("Function", bounded)
        if isgeneratorfunction(function) or isasyncgenfunction(function):
            # the block would be over before the first step
            raise Misconfigured(
                f"a deadline decorates {whole.__qualname__}, a generator; allowed is a"
                " function or a coroutine; put the block inside, around what may wait"
            )
        return super().__call__(function)

    @property
    def expired(self) -> bool:
        """Whether the deadline of the block is over; also after the block."""
        return self.budget is not None and self.budget.at <= monotonic()

    def __enter__(self) -> Self:
        outer = current.get()
        self.budget = budget = self._change(outer)
        self._token = current.set(budget)
        running = interrupter.current.get()
        if running is not None:
            running.changed(budget)
        return self

    def __exit__(self, *_: object) -> None:
        token, self._token = self._token, None
        if token is not None:
            current.reset(token)
        running = interrupter.current.get()
        if running is not None:
            running.changed(current.get())

    async def __aenter__(self) -> Self:
        outer = current.get()
        self.budget = budget = self._change(outer)
        self._alarm = Alarm(budget, outer)
        timer = await self._alarm.begin()
        if budget is not None and timer is not None:
            self.budget = budget = replace(budget, timer=timer)
        self._token = current.set(budget)
        return self

    async def __aexit__(self, *raised: object) -> None:
        alarm, self._alarm = self._alarm, None
        try:
            if alarm is not None:
                await alarm.end(*raised)
        finally:
            token, self._token = self._token, None
            if token is not None:
                current.reset(token)


def run(main: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a coroutine as asyncio.run does, under the deadline in force."""
    return asyncio.run(_bounded(main))


async def _bounded(main: Coroutine[Any, Any, Answer]) -> Answer:
    if current.get() is None:
        return await main
    async with within(None):
        return await main


def within(seconds: float | timedelta | None, what: str = "") -> Scope:
    """Bound the block to this many seconds, or what is left outside if that is less.

    None gives it what is left outside. `what` names the block in errors.
    """
    duration = None if seconds is None else seconds_of(seconds, "within(seconds)")

    def change(outer: Budget | None) -> Budget | None:
        if duration is None:
            return outer
        return earlier(outer, monotonic() + duration, duration, what)

    return Scope(change)


def until(at: float, what: str = "") -> Scope:
    """Bound the block by a monotonic instant: for time that began to run before."""
    instant = seconds_of(at, "until(at)")

    def change(outer: Budget | None) -> Budget:
        return earlier(outer, instant, max(0.0, instant - monotonic()), what)

    return Scope(change)


def shield(grace: float | timedelta) -> Scope:
    """Leave a clean-up this many seconds, even when the deadline is over.

    Inside, the deadline is the later of the two; a shield in a shield ends with the
    outer one. Of no use against a kill: that comes at its own time.
    """
    duration = seconds_of(grace, "shield(grace)")

    def change(outer: Budget | None) -> Budget | None:
        if outer is None:
            return None
        end = min(outer.shielded_until, monotonic() + duration)
        return Budget(
            at=max(outer.at, end),
            seconds=duration if end > outer.at else outer.seconds,
            what=outer.what,
            outer=outer,
            shielded_until=end,
        )

    return Scope(change)


def detached() -> Scope:
    """Let clients and messages of the block know no deadline: it is not of this run.

    A pool that ends the run at its deadline still does, also inside the block.
    """
    return Scope(lambda _: None)


def earlier(outer: Budget | None, at: float, seconds: float, what: str) -> Budget:
    """Return the budget that is over first; the outer one keeps its name and limits."""
    if outer is None:
        return Budget(at, seconds, what)
    if outer.at <= at:
        return Budget(outer.at, outer.seconds, outer.what, outer, outer.shielded_until)
    return Budget(at, seconds, what or outer.what, outer, outer.shielded_until)
