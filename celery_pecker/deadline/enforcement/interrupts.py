"""Threads: an exception put into them by the interpreter, between two bytecodes.

It does not reach a thread that waits inside C (a socket, a lock, time.sleep) until it
comes back, and it may come anywhere, in a `finally` too. Off unless asked for.
"""

import ctypes
import sys
import threading
from contextvars import Token
from typing import Any, Self

from celery_pecker.deadline import budget as budgets
from celery_pecker.deadline import interrupter
from celery_pecker.deadline.budget import Budget, DeadlineExceeded
from celery_pecker.deadline.enforcement.watchdog import WATCHDOG
from celery_pecker.deadline.interrupter import (
    INTERRUPT_INTERVAL,
    Interrupter,
    Interrupts,
)
from celery_pecker.kernel.clock import monotonic


class ThreadInterrupter:
    """Raises in the thread that entered it, once its deadline is over."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._live = False
        self._pending = False
        self._own: Budget | None = None
        self._budget: Budget | None = None
        self._interrupts = Interrupts()
        self._token: Token[Interrupter | None] | None = None

    def __enter__(self) -> Self:
        self._own = self._budget = budgets.current.get()
        self._token = interrupter.current.set(self)
        WATCHDOG.start()
        self._live = True
        if self._own is not None:
            WATCHDOG.add(self._own.at, self)
        return self

    def __exit__(self, *_: object) -> None:
        self._live = False
        with self._lock:
            self._budget = None
            self._take_back()
        if self._token is not None:
            interrupter.current.reset(self._token)

    def changed(self, budget: Budget | None) -> None:
        """Put another deadline in force; take back an interrupt for the last one."""
        if threading.get_ident() != self._thread or not self._live:
            return
        with self._lock:
            self._budget = self._own if budget is None else budget
            self._take_back()
        if self._budget is not None:
            WATCHDOG.add(self._budget.at, self)

    def due(self) -> float | None:
        """Interrupt, if the deadline is over; return when to look next."""
        if not self._live:
            return None
        if not self._lock.acquire(blocking=False):
            return monotonic() + INTERRUPT_INTERVAL
        try:
            budget = self._budget
            if budget is None:
                return None
            now = monotonic()
            if now < budget.at:
                return None  # the change asked for a call of its own
            if budget.patient(now):
                return now + INTERRUPT_INTERVAL
            if self._interrupts.due(budget, handled=self._handles_interrupt()):
                self._pending = True
                _put(self._thread, DeadlineExceeded)
            return now + INTERRUPT_INTERVAL
        finally:
            self._lock.release()

    def _take_back(self) -> None:
        if self._pending:
            self._pending = False
            _put(self._thread, None)

    def _handles_interrupt(self) -> bool:
        current: Any = sys._current_exceptions().get(self._thread)  # noqa: SLF001 — documented
        # Python 3.11 gives the triple of sys.exc_info()
        error = current[1] if isinstance(current, tuple) else current
        return interrupter.handles(error)


def _put(thread: int, error: type[BaseException] | None) -> None:
    """Raise this next in the thread; None takes back what it has not yet raised."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread),
        ctypes.c_void_p() if error is None else ctypes.py_object(error),
    )
