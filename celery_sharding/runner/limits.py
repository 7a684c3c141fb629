"""How long an item, its shard and the job may take, as one deadline that moves.

The deadline in force is one object whose instant is set anew for each item: entering
a block for each would cost more than many an item does. The watchdog reads that
instant when its timer rings, and sets the timer anew if it has moved on.

A processor is called here alone: what it raises is an answer like others. An item that
fails must not stop its shard, nor a shard its ticket: also SystemExit, which would end
the process of the pool, and CancelledError. What ends the process from outside passes.
"""

from collections.abc import Callable, Iterable
from contextvars import copy_context
from math import inf
from typing import Any

from celery_pecker import deadline
from celery_pecker.deadline import DeadlineExceeded
from celery_pecker.deadline.budget import ENDLESS, Budget
from celery_pecker.kernel.clock import monotonic
from celery_sharding.model import Shard
from celery_sharding.process import process_end
from celery_sharding.runner.step_writer import Stop, Work


def attempt(
    function: Callable[..., Any], *args: Any
) -> tuple[Any, BaseException | None]:
    """Return what the function returned, or what it raised."""
    try:
        return function(*args), None
    except BaseException as error:  # noqa: BLE001  # whatever it is
        return None, _failure(error)


def call_each(
    function: Callable[[Any], Any],
    items: Iterable[Any],
    ok: Callable[[Any], None],
    fail: Callable[[BaseException], None],
) -> None:
    """Call the function with each item; yield what it returned, or what it raised."""
    for item in items:
        try:
            value = function(item)
        except BaseException as error:  # noqa: BLE001  # as above
            fail(_failure(error))
        else:
            if value is not None:
                ok(value)


def _failure(error: BaseException) -> BaseException:
    """Return what is recorded of an error; raise what ends the process."""
    end = process_end(error)
    if end is not None:
        raise end
    if not isinstance(error, SystemExit):
        return error
    message = f"SystemExit({error.code!r}) was raised; the process goes on"
    failure = RuntimeError(message)
    failure.__cause__ = error
    failure.__traceback__ = error.__traceback__
    return failure


class Limits:
    """Bounds the calls of a processor for one shard."""

    def __init__(self, work: Work, record: Shard) -> None:
        options = work.options
        self.timeout = inf if options.item_timeout is None else options.item_timeout
        whole = options.shard_deadline
        self.shard_until = (
            inf if whole is None else monotonic() + max(0.0, whole - record.spent)
        )
        outer = deadline.at()
        self._outer = inf if outer is None else outer
        self.job_until = min(work.until, self._outer)
        self.hard = min(self.shard_until, self.job_until, ENDLESS)
        """The moment at which no item goes on."""
        self._none = min(self.timeout, self.hard) >= ENDLESS
        self._pool = work.pool
        self.budget = Budget(self.hard, min(self.timeout, ENDLESS), work.job.task)

    def over(self) -> Stop | None:
        """Return why no item may begin or go on, by the clock alone."""
        now = monotonic()
        if now >= self.job_until:
            return Stop.OVER
        return Stop.TIMED_OUT if now >= self.shard_until else None

    def restart(self) -> None:
        """Return the running code as long as an item from now on."""
        self.budget.at = min(monotonic() + self.timeout, self.hard)

    def lift(self) -> None:
        """Lift the deadline: this package's own code must not be interrupted."""
        self.budget.at = monotonic() + ENDLESS

    def attempt(
        self, function: Callable[..., Any], *args: Any
    ) -> tuple[Any, BaseException | None]:
        """Return what the function returned, or what it raised; struck if too slow."""
        if self._none:
            return attempt(function, *args)
        try:
            return attempt(copy_context().run, self._bounded, function, *args)
        finally:
            self.lift()

    def _bounded(self, function: Callable[..., Any], *args: Any) -> Any:
        self.restart()
        with deadline.until(self.budget.at, self.budget.what) as scope:
            if scope.budget is not None:
                self.budget = scope.budget
            with deadline.enforce(self._pool):
                return function(*args)

    def struck(self, error: BaseException) -> bool:
        """Return whether a deadline ended the code, whatever the error became."""
        cause: BaseException | None = error
        for _ in range(DEEPEST):
            if cause is None:
                return False
            if isinstance(cause, DeadlineExceeded):
                return True
            cause = cause.__cause__ or cause.__context__
        return False


DEEPEST = 20
"""Errors, each the cause of the one before, that are looked at; some are in a ring."""
