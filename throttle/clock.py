"""The one place that reads time and chance.

Which second traffic belongs to is decided by Redis' clock, in Lua, never by Python. The
monotonic clock says how old something is that this process saw; the wall clock is
shown to people and put beside `expires` of a task, which Celery compares with it too.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime

Monotonic = Callable[[], float]
"""Seconds that only go forward; tests hand in their own."""

monotonic: Monotonic = time.monotonic
perf_ns: Callable[[], int] = time.perf_counter_ns
"""What a statement takes, in nanoseconds: 60 ns a call."""


def now() -> datetime:
    """Return the host's wall clock, aware, UTC."""
    return datetime.now(UTC)


def new_id() -> str:
    """Return an id that no other process life has."""
    return uuid.uuid4().hex


_OURS = random.Random()
"""Not the module's: programs seed that one, and count on what it gives them."""


def chance() -> float:
    """Return a number in [0, 1) for jitter."""
    return _OURS.random()


def pause(seconds: float) -> None:
    """Block the thread; for command-line tools only."""
    time.sleep(seconds)
