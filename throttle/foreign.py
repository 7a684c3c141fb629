"""Calls of code that is not ours: a user's route, and the module that it is in.

What a call raises is logged by name, at most once a minute, and lets the task through:
a gate that nobody can talk to must not stop the work. What an import raises ends the
start in one line. The one place here that catches everything.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import ModuleType
from typing import ParamSpec, TypeVar

from throttle.clock import Monotonic, monotonic

logger = logging.getLogger("throttle")

Given = ParamSpec("Given")
Answer = TypeVar("Answer")
EVERY = 60.0
"""Seconds between two lines about the same thing."""


class Rarely:
    """Says a thing at once, and then at most once a minute, with how often it came."""

    def __init__(self, clock: Monotonic = monotonic) -> None:
        self._clock = clock
        self._said: dict[str, float] = {}
        self._kept: dict[str, int] = {}

    def warn(self, what: str, text: str, *args: object) -> None:
        """The line is in the log, unless one about `what` was within the minute."""
        now = self._clock()
        if now - self._said.get(what, -EVERY) < EVERY:
            self._kept[what] = self._kept.get(what, 0) + 1
            return
        self._said[what] = now
        kept = self._kept.pop(what, 0)
        more = f" ({kept} more since the last line)" if kept else ""
        logger.warning("throttle: %s%s", text % args if args else text, more)


def call(
    what: str,
    otherwise: Answer,
    rarely: Rarely,
    function: Callable[Given, Answer],
    *args: Given.args,
    **kwargs: Given.kwargs,
) -> Answer:
    """Return what the function answers, or `otherwise` if it fails."""
    try:
        return function(*args, **kwargs)
    except (Exception, SystemExit) as error:  # noqa: BLE001 — whatever foreign code raises
        rarely.warn(what, "%s failed: %s: %s", what, type(error).__name__, error)
        return otherwise


def module(path: str) -> ModuleType:
    """Return the module, from the current directory too, as Celery finds modules.

    Raises:
        ImportError: It is not there, or running it failed; why, in one line.
    """
    # Who only counts asks for no module, and loads no Celery.
    from celery.utils.imports import import_from_cwd  # noqa: PLC0415

    try:
        found: ModuleType = import_from_cwd(path)
    except (Exception, SystemExit) as error:
        why = " ".join(str(error).split())
        if not isinstance(error, ImportError):
            why = f"{type(error).__name__}: {why}"
        raise ImportError(why) from error
    return found
