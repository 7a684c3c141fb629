"""The deadline in force, and the four questions that code asks of it.

The instant is absolute and monotonic, so what inherits it (a nested block, a
thread, a coroutine) has the rest of the budget and not the whole.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.errors import Misconfigured, PeckerError

if TYPE_CHECKING:
    import asyncio

LEAST = 0.001
"""What `timeout` gives at least: to many libraries 0 means "do not wait"."""
MOST = 2_000_000.0
"""The most that it returns, three weeks: a caller that waited that long asks again.

Sockets, poll() and PostgreSQL count milliseconds, up to 2**31.
"""
ENDLESS = 1e9
"""Seconds of the longest deadline, 31 years: "none" as a number that all can count on.

Timers, timestamps and locks do not take infinity.
"""


class DeadlineExceeded(PeckerError, TimeoutError):
    """The deadline of this run is over: it is to end now."""


EXTRA_TIMEOUT = 0.02
"""Seconds after the deadline in which a client's server may end the wait itself.

A server that ends a statement by itself leaves a connection that can be used again.
"""
CLIENT_GRACE = 0.5
"""Seconds after the deadline for which a client that ends by itself is left alone.

It does so after `EXTRA_TIMEOUT`. An interrupt while it gives up its connection, or
between two steps that belong together, leaves a connection in the middle of an answer,
or one that no pool knows.
"""


@dataclass(slots=True, eq=False)
class Budget:
    """A deadline: until when, how much was given, and what for."""

    at: float
    """The monotonic instant at which it is over."""
    seconds: float
    what: str = ""
    outer: "Budget | None" = None
    shielded_until: float = math.inf
    """The end of the outermost shield; no inner one reaches further."""
    timer: "asyncio.Timeout | None" = None
    """What ends the coroutine that waits under it."""
    waiting: int = 0
    """How many clients wait right now, that will end by themselves."""
    raised: float = -math.inf
    """The instant at which its error was first made, by a client or an interrupt."""

    def patient(self, now: float) -> bool:
        """Return whether to leave a client the moment in which it ends by itself."""
        return self.waiting > 0 and now < self.at + CLIENT_GRACE

    def exceeded(self) -> DeadlineExceeded:
        """Return the error for it."""
        now = monotonic()
        if self.raised < self.at:
            self.raised = now
        late = (now - self.at) * 1000
        whose = f" of {self.what}" if self.what else ""
        return DeadlineExceeded(
            f"the deadline{whose} is over since {max(0.0, late):.0f} ms"
            f" (it was given {self.seconds:g} s)"
        )


current: ContextVar[Budget | None] = ContextVar("celery_pecker_deadline", default=None)


def remaining() -> float | None:
    """Return the seconds that are left, 0.0 when there are none; None: no deadline."""
    budget = current.get()
    if budget is None:
        return None
    left = budget.at - monotonic()
    return left if left > 0.0 else 0.0  # noqa: FURB136 — max() is a call


def check() -> None:
    """Raise DeadlineExceeded if the deadline is over: now, and each time again."""
    budget = current.get()
    if budget is not None and budget.at <= monotonic():
        raise budget.exceeded()


@contextmanager
def ending(*errors: type[BaseException]) -> Iterator[None]:
    """Raise DeadlineExceeded from one of these errors if the deadline is over."""
    try:
        yield
    except errors as error:
        try:
            check()
        except DeadlineExceeded as over:
            raise over from error
        raise


def timeout(default: float | None = None) -> float | None:
    """Return how long the next call may wait: the default, or less if less is left.

    None means as long as it likes. Raises DeadlineExceeded when nothing is left, so a
    call that was given this does not even begin.
    """
    budget = current.get()
    if budget is None:
        return default
    left = budget.at - monotonic()
    if left <= 0.0:
        raise budget.exceeded()
    if default is not None and default <= left:
        return default
    if left > MOST:
        return MOST
    return left if left > LEAST else LEAST  # noqa: FURB136 — as above


def at() -> float | None:
    """Return the monotonic instant at which the deadline is over; None: no deadline."""
    budget = current.get()
    return None if budget is None else budget.at


def seconds_of(duration: float | timedelta, field: str) -> float:
    """Return a duration in seconds, or raise Misconfigured that names the field.

    Infinity is a number of seconds, too: it becomes 31 years.
    """
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        allowed = "a number of seconds or a timedelta"
    elif math.isnan(seconds):
        allowed = "a number of seconds that is one"
    else:
        return max(-ENDLESS, min(float(seconds), ENDLESS))
    raise Misconfigured(f"{field} is {duration!r}; allowed is {allowed}")
