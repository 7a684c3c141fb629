"""Waiting for a condition, never for a guessed number of seconds."""

from collections.abc import Callable
from typing import TypeVar

from celery_pecker.kernel.clock import SYSTEM, pause

T = TypeVar("T")


def eventually(
    condition: Callable[[], T],
    timeout: float = 30.0,
    message: str = "",
    *,
    interval: float = 0.02,
    ignoring: tuple[type[Exception], ...] = (),
) -> T:
    """Return the condition's first true value; an AssertionError after `timeout`.

    Args:
        condition: Asked again and again; at least once, also with a timeout of 0.
        timeout: Seconds until the wait is given up.
        message: What was awaited, for the error.
        interval: Seconds between two questions.
        ignoring: Errors of the condition that mean "not yet", such as a refused
            connection while a server starts.

    """
    deadline = SYSTEM.monotonic() + timeout
    last_error: Exception | None = None
    while True:
        try:
            if value := condition():
                return value
            last_error = None
        except ignoring as error:
            last_error = error
        if SYSTEM.monotonic() >= deadline:
            awaited = message or getattr(condition, "__name__", repr(condition))
            last = f"; the last answer was {last_error!r}" if last_error else ""
            raise AssertionError(
                f"not within {timeout:g} s: {awaited}{last}"
            ) from last_error
        pause(interval)
