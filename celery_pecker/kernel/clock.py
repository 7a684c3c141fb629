"""The one place that reads time and chance.

Three clocks, three uses: the database's clock decides what is due (it is read in
SQL, never here); the monotonic clock bounds how long this process trusts an
answer; the host's wall clock fills the fields of a Celery message that Celery
itself compares with a host clock (``expires`` of a plain beat entry), nothing else.
"""

import os
import random
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class Clock(Protocol):
    """What the house asks of time; tests hand in their own."""

    def monotonic(self) -> float:
        """Return seconds that only go forward; comparable within one process."""

    def now(self) -> datetime:
        """Return the host's wall clock, aware, UTC."""


class SystemClock:
    """The machine's own clocks."""

    __slots__ = ()

    def monotonic(self) -> float:
        """Return seconds that only go forward; comparable within one process."""
        return time.monotonic()

    def now(self) -> datetime:
        """Return the host's wall clock, aware, UTC."""
        return datetime.now(UTC)


SYSTEM = SystemClock()

Monotonic = Callable[[], float]
"""Seconds that only go forward; tests hand in their own."""
monotonic: Monotonic = time.monotonic
"""The same without a call in between, for what is asked a million times a second."""
perf_ns: Callable[[], int] = time.perf_counter_ns
"""What a statement takes, in nanoseconds: 60 ns a call."""
now = SYSTEM.now
"""The host's wall clock, aware, UTC."""


def new_id() -> uuid.UUID:
    """Return an id that no other process life has."""
    return uuid.uuid4()


def new_tag() -> str:
    """Return a new id as text, for what is made a thousand at a time.

    The text of a UUID of version 4; uuid4() and printing it cost four times as much.
    """
    text = os.urandom(16).hex()
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"


_OURS = random.Random()
"""Not the module's: programs seed that one, and count on what it gives them."""


def chance() -> float:
    """Return a number in [0, 1) for jitter."""
    return _OURS.random()


def pause(seconds: float) -> None:
    """Block this thread or greenlet; never for the scheduler's loop."""
    time.sleep(seconds)


def to_us(instant: datetime) -> int:
    """Return an aware instant as whole microseconds since 1970, exactly."""
    return (instant - EPOCH) // MICROSECOND


def from_us(instant_us: int) -> datetime:
    """Return the aware UTC instant of whole microseconds since 1970, exactly."""
    return EPOCH + timedelta(microseconds=instant_us)
