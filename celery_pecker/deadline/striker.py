"""Who ends a run that does not end by itself: raised in its thread, from outside.

One striker serves one thread (or greenlet) for as long as a run lasts. It is carried by
the context, as the deadline is; contexts are copied into other threads, which are not
its business, so each striker looks whose turn it is.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from celery_pecker.deadline.budget import Budget, DeadlineExceeded
from celery_pecker.kernel.clock import monotonic

STRIKE_INTERVAL = 0.02
"""Seconds until the next strike at code that has swallowed the last one."""
CLEAN_UP = 0.5
"""For how long code may handle a strike (except, finally, with) before the next one."""


LAST = 1.0
"""Seconds after the end of a whole run from which `except Exception` does not help."""


class Enough(BaseException):
    """The last strikes at a run that swallows DeadlineExceeded in an endless loop.

    Such a loop retries something for ever, with `except Exception`, and would keep
    its thread for ever. It leaves the run as the DeadlineExceeded that it carries.
    """

    def __init__(self, exceeded: DeadlineExceeded) -> None:
        super().__init__(str(exceeded))
        self.exceeded = exceeded


def blow(budget: Budget, whole: Budget | None) -> DeadlineExceeded | Enough:
    """Return what to strike with, at a run whose deadline as a whole is given."""
    error = budget.exceeded()
    if whole is not None and monotonic() > whole.at + LAST:
        return Enough(error)
    return error


def soften(error: BaseException | None) -> None:
    """Raise what others may see, where the run ends."""
    if isinstance(error, Enough):
        raise error.exceeded from error


class Striker(Protocol):
    """Raises DeadlineExceeded in the code of a run."""

    def changed(self, budget: Budget | None) -> None:
        """Put another deadline in force from here on."""
        ...


current: ContextVar[Striker | None] = ContextVar("celery_pecker_striker", default=None)


@dataclass(slots=True)
class Strikes:
    """What was struck last, and so when to strike next."""

    budget: Budget | None = None
    since: float = 0.0

    def due(self, budget: Budget, *, handled: bool) -> bool:
        """Return whether to strike now; from then on the strike counts as made.

        The first strike at a budget comes at once. The next one only when the code has
        swallowed the first, or takes too long over it: a clean-up that is struck in its
        middle leaves locks and connections behind.
        """
        now = monotonic()
        if self.budget is budget and handled and now - self.since < CLEAN_UP:
            return False
        self.budget, self.since = budget, now
        return True
