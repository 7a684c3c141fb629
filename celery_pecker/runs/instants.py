"""What the database's clock shows, as far as this process has seen it."""

from copy import copy
from datetime import datetime, timedelta

from celery_pecker.kernel.clock import Clock, from_us, to_us
from celery_pecker.kernel.lease import SECOND, ClockOffset

FRESH = 60.0
"""Seconds after which a clock is asked again: quartz drifts some milliseconds."""


class Instants:
    """Turns moments of this process into instants of the database, and back.

    One for all threads of a process. What it does not know it takes from the host's
    wall clock: a deadline that came from elsewhere is then as good as that clock.

    The value is replaced, never changed, so that it needs no lock: a child that is
    forked while a thread holds a lock would never get it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = ClockOffset()
        self._asked: float | None = None

    @property
    def fresh(self) -> bool:
        """Whether the database was asked lately (or was away when it was)."""
        asked = self._asked
        return asked is not None and self._clock.monotonic() - asked < FRESH

    def observe(self, now_us: int, *, sent: float) -> None:
        """Take in an answer of the database."""
        received = self._clock.monotonic()
        offset = copy(self._offset)
        offset.observe(now_us, sent=sent, received=received)
        self._offset, self._asked = offset, received

    def missed(self) -> None:
        """Note that the database gave no answer: the next question waits a while."""
        self._asked = self._clock.monotonic()

    def after(self, seconds: float) -> datetime:
        """Return the instant that is so many seconds away; rather too early."""
        offset, moment = self._offset, self._clock.monotonic()
        if offset.known:
            return from_us(offset.now_us(moment) + int(seconds * SECOND))
        return self._clock.now() + timedelta(seconds=seconds)

    def moment(self, instant: datetime) -> float:
        """Return a moment of the monotonic clock at which it has surely not passed."""
        offset = self._offset
        if offset.known:
            return offset.before(to_us(instant))
        left = (instant - self._clock.now()).total_seconds()
        return self._clock.monotonic() + left
