"""Main threads: SIGALRM by an interval timer, and what it does when it rings."""

import signal
import sys
import threading
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from contextvars import Token
from types import CodeType, FrameType
from typing import Any, Self

from celery_pecker.deadline import budget as budgets
from celery_pecker.deadline import interrupter
from celery_pecker.deadline.budget import CLIENT_GRACE, EXTRA_TIMEOUT, Budget
from celery_pecker.deadline.enforcement.watchdog import ProcessKiller
from celery_pecker.deadline.interrupter import (
    INTERRUPT_INTERVAL,
    Interrupter,
    Interrupts,
)
from celery_pecker.deadline.scopes import Scope
from celery_pecker.kernel.clock import monotonic

SOON = 1e-6
"""An interval timer of 0 is switched off."""

BY_ITSELF = 0.25
"""Seconds between two rings of the timer itself, should our own code be cut short.

Rarer than every 100 ms: psycopg's wait in C begins its 100 ms anew after each signal,
and looks at signals only after them.
"""
AT_ONCE = 0.0005
"""Until the next ring, when this one came while our own code ran."""
OUR_DEPTH = 6
"""How deep our own code calls from where it must not be interrupted."""
CLIENTS_DEPTH = 40
"""How deep a client's code does: through a pool and a driver to a socket."""

_Handler = Callable[[int, FrameType | None], Any] | int | None


class Alarm:
    """Rings at the deadline in force; the timer's earlier setting is restored after."""

    def __init__(self, killer: ProcessKiller | None = None) -> None:
        self._killer = killer
        self._live = False
        self._own: Budget | None = None
        self._next = float("inf")
        self._interrupts = Interrupts()
        self._token: Token[Interrupter | None] | None = None
        self._before: _Handler = signal.SIG_DFL
        self._their_next: float | None = None
        self._their_interval = 0.0

    def __enter__(self) -> Self:
        self._own = budgets.current.get()
        if self._killer is not None:
            self._killer.__enter__()
        if isinstance(interrupter.current.get(), Alarm):
            return self  # a run in a run: the outer timer serves both
        self._token = interrupter.current.set(self)
        self._before = signal.signal(signal.SIGALRM, self._ring)
        left, self._their_interval = signal.getitimer(signal.ITIMER_REAL)
        self._their_next = monotonic() + left if left else None
        self._live = True
        self._set(self._own.at if self._own else float("inf"))
        return self

    def __exit__(self, *raised: object) -> None:
        if self._live:
            self._live = False
            # silent first: without a handler the signal ends the process
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._before or signal.SIG_DFL)
            if self._their_next is not None:
                left = max(SOON, self._their_next - monotonic())
                signal.setitimer(signal.ITIMER_REAL, left, self._their_interval)
        if self._token is not None:
            interrupter.current.reset(self._token)
            self._token = None
        if self._killer is not None:
            self._killer.__exit__(*raised)
        interrupter.raise_as_exceeded(raised[1])

    def changed(self, budget: Budget | None) -> None:
        """Ring earlier if need be. An early ring costs less than a later setting."""
        if (
            budget is not None
            and budget.at < self._next
            and self._live
            and threading.current_thread() is threading.main_thread()
        ):
            self._set(budget.at)

    def check_now(self) -> None:
        """Look at the deadline now: another thread has moved it nearer."""
        signal.setitimer(signal.ITIMER_REAL, SOON, BY_ITSELF)

    def _set(self, at: float) -> None:
        self._next = at
        if self._their_next is not None:
            at = min(at, self._their_next)
        if at != float("inf"):
            left = max(SOON, at - monotonic())
            signal.setitimer(signal.ITIMER_REAL, left, BY_ITSELF)

    def _ring_in(self, seconds: float) -> None:
        self._next = float("-inf")  # nothing that is entered meanwhile can be earlier
        signal.setitimer(signal.ITIMER_REAL, seconds, BY_ITSELF)

    def _ring(self, number: int, frame: FrameType | None) -> None:
        if not self._live:
            return
        now = monotonic()
        if self._their_next is not None and self._their_next <= now:
            interval = self._their_interval
            self._their_next = now + interval if interval else None
            if callable(self._before):
                self._before(number, frame)
        # a signal is handled in the context of the code that it interrupts
        budget = budgets.current.get() or self._own
        if budget is None or budget.at > now:
            self._set(float("inf") if budget is None else budget.at)
            if budget is None and self._their_next is None:
                signal.setitimer(signal.ITIMER_REAL, 0)
            return
        if _runs_in(frame, UNTOUCHABLE, OUR_DEPTH):
            self._ring_in(AT_ONCE)
            return  # it would leave the deadline behind
        indivisible = _runs_in(frame, interrupter.INDIVISIBLE, CLIENTS_DEPTH)
        if budget.patient(now) or (indivisible and now < budget.at + CLIENT_GRACE):
            self._ring_in(EXTRA_TIMEOUT)
            return
        self._ring_in(INTERRUPT_INTERVAL)
        if self._interrupts.due(budget, handled=interrupter.handles(sys.exc_info()[1])):
            raise interrupter.error_for(budget, self._own)


def _runs_in(frame: FrameType | None, code: AbstractSet[CodeType], depth: int) -> bool:
    """Return whether such code was interrupted, or calls what was, so deep at most."""
    for _ in range(depth):
        if frame is None:
            return False
        if frame.f_code in code:
            return True
        frame = frame.f_back
    return False


UNTOUCHABLE = frozenset(
    function.__code__
    for function in (
        Alarm.__enter__,
        Alarm.__exit__,
        Alarm.changed,
        Alarm._set,  # noqa: SLF001 — its own
        Alarm._ring_in,  # noqa: SLF001
        ProcessKiller.__enter__,
        ProcessKiller.__exit__,
        Scope.__enter__,
        Scope.__exit__,
    )
)
"""What must run to its end: an interrupt in it would outlive the block."""
