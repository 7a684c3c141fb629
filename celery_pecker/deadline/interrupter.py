"""What ends a run that does not end by itself: an exception, raised in its thread.

One interrupter serves one thread (or greenlet) for as long as a run lasts. The context
carries it, as it carries the deadline. Contexts are copied into other threads, which
their interrupter must leave alone: it compares the thread first.
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from types import CodeType
from typing import Any, Protocol

from celery_pecker.deadline.budget import Budget, DeadlineExceeded
from celery_pecker.kernel.clock import monotonic

INTERRUPT_INTERVAL = 0.02
"""Seconds until the next interrupt of code that has swallowed the last one."""
CLEAN_UP = 0.5
"""Seconds for which code may handle an interrupt (except, finally, with)."""


LAST = 1.0
"""Seconds after the end of a whole run from which `except Exception` does not help."""


class FinalInterrupt(BaseException):
    """The last interrupt of a run that swallows DeadlineExceeded in an endless loop.

    Such a loop retries something for ever, with `except Exception`, and would keep
    its thread for ever. It leaves the run as the DeadlineExceeded that it carries.
    """

    def __init__(self, exceeded: DeadlineExceeded) -> None:
        super().__init__(str(exceeded))
        self.exceeded = exceeded


def error_for(
    budget: Budget, whole: Budget | None
) -> DeadlineExceeded | FinalInterrupt:
    """Return the exception to raise in a run; `whole`: its deadline as a whole."""
    error = budget.exceeded()
    if whole is not None and monotonic() > whole.at + LAST:
        return FinalInterrupt(error)
    return error


def handles(error: BaseException | None) -> bool:
    """Return whether code that handles this error is busy with an interrupt."""
    while error is not None:
        if isinstance(error, (DeadlineExceeded, FinalInterrupt)):
            return True
        error = error.__context__
    return False


def raise_as_exceeded(error: object) -> None:
    """Raise a `FinalInterrupt` as the DeadlineExceeded that it carries."""
    if isinstance(error, FinalInterrupt):
        raise error.exceeded from error


INDIVISIBLE: set[CodeType] = set()
"""Code of clients whose steps belong together: borrow a connection and say who has it.

It is left alone for `CLIENT_GRACE` after the deadline; each wait in it is bounded.
"""


def keep_whole(*functions: Callable[..., Any]) -> None:
    """Let no interrupt come between the steps of these functions, written in Python."""
    INDIVISIBLE.update(function.__code__ for function in functions)


class Interrupter(Protocol):
    """Raises DeadlineExceeded in the code of a run."""

    def changed(self, budget: Budget | None) -> None:
        """Put another deadline in force from here on."""


current: ContextVar[Interrupter | None] = ContextVar(
    "celery_pecker_interrupter", default=None
)


@dataclass(slots=True)
class Interrupts:
    """The last interrupt, and so when the next one is due."""

    budget: Budget | None = None
    since: float = 0.0

    def due(self, budget: Budget, *, handled: bool) -> bool:
        """Return whether to interrupt now; from then on the interrupt counts as made.

        The first interrupt of a budget comes at once, the next one only when the code
        has swallowed the first, or takes too long over it: a clean-up that is
        interrupted in its middle leaves locks and connections behind. The error of a
        client that ended its wait by itself counts as the first.
        """
        now = monotonic()
        since = self.since if self.budget is budget else budget.raised
        if handled and now - since < CLEAN_UP:
            return False
        self.budget, self.since = budget, now
        return True
