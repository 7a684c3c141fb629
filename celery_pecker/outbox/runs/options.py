"""What a task says of its runs. Pure."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from celery_pecker.kernel.declared import is_number, is_whole
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.outbox.runs import holds

MAX_ATTEMPTS = 10_000
LEAST_TIMEOUT = math.ulp(0.0)
MAX_TIMEOUT = 86_400.0
"""Seconds: a run that needs more is a job."""
EMERGENCY = "_pecker_emergency"
"""On a task: its emergency completion."""


@dataclass(frozen=True, slots=True)
class Emergency:
    """What completes a task from its n-th failure on."""

    call: Callable[..., Any]
    after: int


@dataclass(frozen=True, slots=True)
class Options:
    """How a task is run."""

    timeout: float | None
    """Seconds; None: what its hold has room for."""
    attempts: int
    """After so many the row is parked."""
    emergency: Emergency | None = None

    @property
    def floor(self) -> float:
        """The shortest hold, in seconds."""
        return holds.floor(self.timeout)

    @property
    def after(self) -> int | None:
        """How many attempts the task itself has; None: all."""
        return None if self.emergency is None else self.emergency.after


def read(task: Any, *, attempts: int) -> Options:
    """Return the options of a task: ``timeout``, ``outbox_attempts`` and its emergency.

    Args:
        task: Celery's task.
        attempts: Where the task says nothing.

    Raises:
        Misconfigured: one of them is not allowed.

    """
    timeout = getattr(task, "timeout", None)
    if timeout is not None and not is_number(timeout, LEAST_TIMEOUT, MAX_TIMEOUT):
        raise _refused(task, "timeout", timeout, f"seconds above 0, to {MAX_TIMEOUT:g}")
    known = getattr(task, "outbox_attempts", None)
    if known is not None and not is_whole(known, 1, MAX_ATTEMPTS):
        raise _refused(task, "outbox_attempts", known, f"1 to {MAX_ATTEMPTS}")
    return Options(
        timeout=None if timeout is None else float(timeout),
        attempts=known or attempts,
        emergency=getattr(task, EMERGENCY, None),
    )


def emergency(task: Any, after: int) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator: the function completes the task from failure ``after`` on.

    It is called as the task is. If it returns, the task is done.

    Raises:
        Misconfigured: ``after`` is no number from 1 on, or there is one already; or the
            task has so few ``outbox_attempts`` that it would never be called.
    """
    attempts: Any = getattr(task, "outbox_attempts", None)
    most = attempts if is_whole(attempts, 1, MAX_ATTEMPTS) else MAX_ATTEMPTS
    if not is_whole(after, 1, most):
        raise _refused(task, "emergency(after=…)", after, f"1 to {most}")

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if getattr(task, EMERGENCY, None) is not None:
            raise Misconfigured(f"{task.name} has an emergency completion already")
        setattr(task, EMERGENCY, Emergency(function, after))
        return function

    return register


def install(app: Any) -> None:
    """Give the tasks of an app ``@task.emergency(after=…)``; may be called again."""
    if "emergency" not in vars(app.Task):
        app.Task.emergency = emergency


def _refused(task: Any, field: str, value: object, allowed: str) -> Misconfigured:
    return Misconfigured(f"{task.name}: {field} is {value!r}; allowed is {allowed}")
