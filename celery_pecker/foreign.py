"""Calls of code that is not ours: users' schedules, listeners.

What it raises is logged by name and must not stop the entries beside it: SystemExit
too, which on the scheduler's thread would end the thread and leave the process alive
and silent. Together with loop.py this is where everything is caught; nowhere else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

logger = logging.getLogger(__name__)

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


class Exited(Exception):
    """Code that is not ours asked the process to end; only its own entry fails."""


@contextmanager
def no_exit(what: str) -> Iterator[None]:
    """Raise Exited where the code within raises SystemExit.

    On the scheduler's thread SystemExit ends the thread, not the process, and each
    other replica that wins the slot after it.
    """
    try:
        yield
    except SystemExit as error:
        message = f"{what} raised {error!r}"
        raise Exited(message) from error


def call(
    what: str,
    otherwise: Answer,
    function: Callable[Given, Answer],
    *args: Given.args,
    **kwargs: Given.kwargs,
) -> Answer:
    """Return what the function answers, or ``otherwise`` if it fails."""
    try:
        return function(*args, **kwargs)
    except (Exception, SystemExit):  # whatever foreign code raises
        logger.exception("pecker: %s failed", what)
        return otherwise


def survive(
    what: str,
    function: Callable[Given, object],
    *args: Given.args,
    **kwargs: Given.kwargs,
) -> BaseException | None:
    """Return what the function raised, whatever it is, or None.

    For threads that run users' tasks one after another: no KeyboardInterrupt out of a
    task may end them either.
    """
    try:
        function(*args, **kwargs)
    except BaseException as error:
        logger.exception("pecker: %s failed", what)
        return error
    return None
