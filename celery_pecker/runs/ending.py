"""How a run ends at its deadline: as DeadlineExceeded, whatever was made of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Any

from celery.exceptions import Ignore, Retry

from celery_pecker import deadline
from celery_pecker.deadline import DeadlineExceeded

Call = Callable[[], Any]

MARK = "_pecker_guarded"
"""On what is wrapped, and on a request that has been looked at."""
BOUND = "_pecker_bound"
"""On a request whose end is watched here."""

DEEPEST = 20
"""Errors, each the cause of the one before, that are looked at; some are in a ring."""


class _Over(Ignore):
    """Carries DeadlineExceeded through `autoretry_for`, which lets Ignore pass."""


class _Unmasked:
    """Whatever a strike was turned into on its way out is DeadlineExceeded again.

    It is a TimeoutError, which many libraries take for their own socket's: what
    redis-py or kombu raise instead would be a failure like others, and tried again.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not isinstance(error, Exception) or isinstance(error, (Ignore, Retry)):
            return
        if deadline.remaining() != 0.0 or isinstance(error, DeadlineExceeded):
            return
        cause: BaseException | None = error
        for _ in range(DEEPEST):
            if isinstance(cause, DeadlineExceeded):
                raise DeadlineExceeded(*cause.args) from error
            cause = cause and (cause.__cause__ or cause.__context__)


def ended_in_time(call: Call) -> Any:
    """Call; whatever comes back after the deadline is DeadlineExceeded."""
    try:
        with _Unmasked():
            result = call()
    except _Over as over:
        raise over.args[0] from over.args[0].__cause__
    except Retry:
        deadline.check()  # the retry would be refused: it is late too
        raise
    deadline.check()
    return result


def past_autoretry(task: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    """Let a deadline that is over end the task, not bring about a retry."""

    @wraps(original)
    def ended(*args: Any, **kwargs: Any) -> Any:
        try:
            with _Unmasked():
                return original(*args, **kwargs)
        except DeadlineExceeded as error:
            if not hasattr(task.request, BOUND) or deadline.remaining() != 0.0:
                raise
            raise _Over(error) from error

    setattr(ended, MARK, True)
    return ended
