"""This process: its name as a holder, and whether an error ends it."""

import os
import signal
import socket
import sys

from billiard import common
from celery.exceptions import WorkerShutdown, WorkerTerminate

from celery_pecker.kernel.clock import new_tag
from celery_pecker.kernel.user_code import BY_SIGNAL


def holder_name() -> str:
    """Return a unique name: hostname, pid and a random part."""
    return f"{prefix_of(os.getpid())}{new_tag()}"


def prefix_of(process: int) -> str:
    """Return how the names of a process of this host begin."""
    return f"{socket.gethostname()}:{process}:"


ENDS = (WorkerShutdown, WorkerTerminate)
"""A worker's own way out, raised in whatever runs."""


def ended_by_signal() -> bool:
    """Return whether a signal has ended this process of a prefork pool.

    Code that catches SystemExit goes on, and what its clean-up raises is no failure.
    """
    # Only newer versions have a public name for it.
    fired: list[bool] = common._should_have_exited  # type: ignore[attr-defined]  # noqa: SLF001
    return fired[0]


def process_end(error: BaseException) -> BaseException | None:
    """Return what ends the process, or the greenlet, in which the error was raised.

    None: the error is the code's own, be it SystemExit or CancelledError.
    """
    if isinstance(error, SystemExit) and error.code in BY_SIGNAL:
        return error
    if ended_by_signal():
        end = SystemExit(signal.SIGTERM - 256)
        end.__cause__ = error
        return end
    killed = getattr(sys.modules.get("greenlet"), "GreenletExit", ENDS)
    # Workers handle SIGINT themselves: there an item raised KeyboardInterrupt.
    typed = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ends = (*ENDS, killed, KeyboardInterrupt) if typed else (*ENDS, killed)
    return error if isinstance(error, ends) else None
