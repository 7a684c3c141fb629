"""PreProcess is ended from outside: its job was decided, or its worker is to stop.

prefork, solo   wherever it is, but in C
gevent          where it waits
all pools       when its generator, or another iterable, gives its next item
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from celery_pecker import deadline
from celery_pecker.deadline.budget import ENDLESS
from celery_pecker.kernel.clock import monotonic, pause

TURN, LET = 0.05, 0.01
"""Seconds after which a greenlet that gives items lets others run, and for how long.
The whole worker stood still otherwise."""


class Worker(Protocol):
    """What a stage knows of the worker that runs it."""

    @property
    def pool(self) -> str:
        """Celery's word for it: how code is interrupted."""
        ...

    @property
    def stopping(self) -> bool:
        """Whether it is about to stop."""
        ...


class Interruption:
    """Code that another thread may end before its time, as if by a deadline."""

    def __init__(self, pool: str, seconds: float | None) -> None:
        """Take the ``seconds`` until the code's own deadline; None: it has none."""
        self._pool = pool
        self._greenlet = pool in {"gevent", "eventlet"}
        self._seconds = ENDLESS if seconds is None else seconds
        self._turn = threading.Lock()
        self._scope: deadline.Scope | None = None
        self._enforced: Any = None
        self.wanted = False
        """Whether the code is to end."""

    @contextmanager
    def bounding(self) -> Iterator[deadline.Scope]:
        """Raise DeadlineExceeded in the block at its deadline, or once it is to end."""
        with deadline.within(self._seconds) as scope:
            enforced = deadline.enforce(self._pool)
            with enforced:
                with self._turn:
                    self._scope, self._enforced = scope, enforced
                try:
                    self.check()
                    yield scope
                finally:
                    with self._turn:
                        self._scope = self._enforced = None

    def end(self) -> None:
        """End the code; for another thread. Once is enough."""
        with self._turn:
            if self.wanted:
                return
            self.wanted = True
            if self._scope is not None and self._scope.budget is not None:
                self._scope.budget.at = monotonic()
                check_now = getattr(self._enforced, "check_now", None)
                if check_now is not None:
                    check_now()

    def check(self) -> None:
        """Raise DeadlineExceeded if the code is to end."""
        if self.wanted:
            message = "its job was decided, or its worker is to stop"
            raise deadline.DeadlineExceeded(message)

    def each(self, data: Any) -> Any:
        """Return it; what may have no end is looked at between two of its items."""
        if isinstance(data, Collection) or not isinstance(data, Iterable):
            return data
        return self._looked_at(data)

    def _looked_at(self, items: Iterable[Any]) -> Iterator[Any]:
        turn = monotonic()
        for item in items:
            if self._greenlet and monotonic() - turn > TURN:
                # The check whether the job was decided runs in a greenlet, too.
                pause(LET)
                turn = monotonic()
            self.check()
            yield item
