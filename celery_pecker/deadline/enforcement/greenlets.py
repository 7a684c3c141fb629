"""Greenlets: a timer of gevent's hub throws into the one that runs over."""

from contextvars import Token
from typing import Any, Self
from weakref import ref

from gevent import get_hub, getcurrent

from celery_pecker.deadline import budget as budgets
from celery_pecker.deadline import interrupter
from celery_pecker.deadline.budget import Budget
from celery_pecker.deadline.interrupter import (
    INTERRUPT_INTERVAL,
    Interrupter,
    Interrupts,
)
from celery_pecker.kernel.clock import monotonic


class GreenletInterrupter:
    """Raises in the greenlet that entered it, whenever that waits in the hub."""

    def __init__(self) -> None:
        self._greenlet: Any = getcurrent()
        self._own: Budget | None = None
        self._budget: Budget | None = None
        self._timer: Any = None
        self._last: ref[BaseException] | None = None
        self._interrupts = Interrupts()
        self._token: Token[Interrupter | None] | None = None

    def __enter__(self) -> Self:
        self._own = self._budget = budgets.current.get()
        self._token = interrupter.current.set(self)
        self._set()
        return self

    def __exit__(self, *raised: object) -> None:
        self._budget = self._own = None
        self._set()
        if self._token is not None:
            interrupter.current.reset(self._token)
        interrupter.raise_as_exceeded(raised[1])

    def changed(self, budget: Budget | None) -> None:
        """Interrupt at this deadline from now on."""
        if getcurrent() is self._greenlet:
            self._budget = budget or self._own
            self._set()

    def check_now(self) -> None:
        """Look at the deadline now: another greenlet has moved it nearer."""
        self._set()

    def _set(self, at: float | None = None) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer.close()
            self._timer = None
        if self._budget is not None:
            left = max(0.0, (at or self._budget.at) - monotonic())
            self._timer = get_hub().loop.timer(left)
            self._timer.start(self._interrupt)

    def _interrupt(self) -> None:
        """Throw, in the hub: nothing of the greenlet runs while this decides."""
        budget = self._budget
        if budget is None or self._greenlet.dead:
            return
        now = monotonic()
        if budget.at > now:
            self._set()
            return
        self._set(now + INTERRUPT_INTERVAL)
        if budget.patient(now):
            return
        # code that handles an exception holds it; a swallowed one is collected
        handled = self._last is not None and self._last() is not None
        if self._interrupts.due(budget, handled=handled):
            error = interrupter.error_for(budget, self._own)
            self._last = ref(error)
            self._greenlet.throw(error)
