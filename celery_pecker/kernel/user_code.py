"""Call code that is not ours: users' schedules, routes, listeners, modules.

What such code raises is logged by name and must not stop what stands beside it:
SystemExit too, which on the scheduler's thread would end the thread and leave the
process alive and silent. Together with loop.py
and once_a_minute.py this is where everything is caught.
"""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import ParamSpec, TypeVar

logger = logging.getLogger(__name__)

Options = ParamSpec("Options")
Answer = TypeVar("Answer")


BY_SIGNAL = range(-255, -191)
"""Codes of the SystemExit by which a child of prefork ends: 256 less than the signal's
number. SIGTERM is -241: a hard time limit, or a stop of all processes of a service."""


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
        raise Exited(f"{what} raised {error!r}") from error


def call(
    what: str,
    otherwise: Answer,
    function: Callable[Options, Answer],
    /,
    *args: Options.args,
    **kwargs: Options.kwargs,
) -> Answer:
    """Return what the function answers, or ``otherwise`` if it fails."""
    try:
        return function(*args, **kwargs)
    except (Exception, SystemExit):  # whatever foreign code raises
        logger.exception("pecker: %s failed", what)
        return otherwise


def load_module(path: str) -> ModuleType:
    """Return a module, from the current directory too, as Celery finds modules.

    Raises:
        ImportError: It is not there, or running it failed; why, in one line.

    """
    folder = str(Path.cwd())
    added = folder not in sys.path
    if added:
        sys.path.insert(0, folder)
    try:
        return import_module(path)
    except (Exception, SystemExit) as error:
        why = " ".join(str(error).split())
        if not isinstance(error, ImportError):
            why = f"{type(error).__name__}: {why}"
        raise ImportError(why) from error
    finally:
        if added and folder in sys.path:
            sys.path.remove(folder)


def tried(
    function: Callable[Options, Answer],
    /,
    *args: Options.args,
    **kwargs: Options.kwargs,
) -> tuple[Answer, None] | tuple[None, Exception]:
    """Return what the function answers, or the error that it raised, for the caller.

    What ends processes (SystemExit) passes.
    """
    try:
        return function(*args, **kwargs), None
    except Exception as error:  # noqa: BLE001  # the caller deals with it
        return None, error


def raised(
    function: Callable[Options, object],
    /,
    *args: Options.args,
    **kwargs: Options.kwargs,
) -> BaseException | None:
    """Return what the function raised, whatever it is, or None; the caller logs it.

    For threads of single calls: gevent.Timeout and asyncio.CancelledError are no
    Exception, and what ends the thread must not be lost.
    """
    try:
        function(*args, **kwargs)
    except BaseException as error:  # noqa: BLE001  # the caller deals with it
        return error
    return None


def call_logging_errors(
    what: str,
    function: Callable[Options, object],
    /,
    *args: Options.args,
    **kwargs: Options.kwargs,
) -> BaseException | None:
    """Return what the function raised, whatever it is, or None.

    For threads that run users' tasks one after another: no KeyboardInterrupt out of a
    task may end them either.
    """
    error = raised(function, *args, **kwargs)
    if error is not None:
        logger.error("pecker: %s failed", what, exc_info=error)
    return error


def shown(error: BaseException) -> str:
    """Return type and text of an error, as any log and table can hold them.

    The text may be code that fails, or have half a pair of UTF-16, which no driver
    encodes.
    """
    try:
        text = str(error)
    except Exception as wrong:  # noqa: BLE001  # __str__ is foreign code, too
        text = f"its text cannot be read: {type(wrong).__name__}"
    line = f"{type(error).__name__}: {text}".replace("\0", "")
    return line.encode(errors="backslashreplace").decode()
