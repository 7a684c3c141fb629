"""Ctrl-C and its kin: at once where nothing is half done, otherwise a moment later.

A signal between the start of a child and the note of its process id would leave that
child behind, so what starts something does it undisturbed. A process has one set of
signal handlers, and so this module one state.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(slots=True)
class _State:
    depth: int = 0
    asked: int | None = None
    waiting: bool = False


_state = _State()


def listen() -> None:
    """A signal that asks to end raises SystemExit with 128 and its number."""
    for number in ENDING:
        signal.signal(number, _end)


def deafen() -> None:
    """Signals are ignored from now on: nothing breaks into the clean-up."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


def wait() -> None:
    """Return at the next signal that asks to end."""
    _state.waiting = True
    while _state.waiting:
        signal.pause()


@contextmanager
def undisturbed() -> Iterator[None]:
    """The body runs to its end; a signal that came meanwhile counts after it."""
    _state.depth += 1
    try:
        yield
    finally:
        _state.depth -= 1
    if _state.asked is not None and not _state.depth:
        _end(_state.asked, None)


def _end(number: int, _: FrameType | None) -> None:
    if _state.waiting:
        _state.waiting = False
        return
    if _state.depth:
        _state.asked = number
        return
    deafen()
    raise SystemExit(128 + number)
