"""The one place that reads time and chance.

Which second traffic belongs to is decided by Redis' clock, in Lua, never by Python. The
monotonic clock says how old something is that this process saw; the wall clock is
shown to people and put beside `expires` of a task, which Celery compares with it too.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from datetime import datetime

from celery_pecker.kernel.clock import SYSTEM, chance, pause

__all__ = ["Monotonic", "chance", "monotonic", "new_id", "now", "pause", "perf_ns"]

Monotonic = Callable[[], float]
"""Seconds that only go forward; tests hand in their own."""

monotonic: Monotonic = time.monotonic
perf_ns: Callable[[], int] = time.perf_counter_ns
"""What a statement takes, in nanoseconds: 60 ns a call."""
now: Callable[[], datetime] = SYSTEM.now
"""The host's wall clock, aware, UTC."""


def new_id() -> str:
    """Return an id that no other process life has."""
    return uuid.uuid4().hex
