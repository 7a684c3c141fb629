"""How long a claim may be acted upon, and what time it is between two answers.

Nothing here reads a clock: instants come in as arguments.
"""

from dataclasses import dataclass

SECOND = 1_000_000
"""Microseconds in a second; instants of the kernel are whole microseconds."""

DRIFT = 200e-6
"""How far two quartz clocks may drift apart, seconds per second (generous)."""

SLACK = 5.0
"""Seconds that a row may lie ahead of the database's clock before that counts as a
clock that stepped back (or the entry's period, if that is longer): NTP corrects less
without a step, and so do most failovers to a replica."""

SKEW = 2.0
"""Seconds added to a deadline where Celery compares it with a worker's host clock
(`expires`): synchronized hosts differ by milliseconds, and a virtual machine that was
paused by a second or so. The worker's own check of the deadline is exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustWindow:
    """How long a holder believes itself, by its own monotonic clock (I2).

    It opens before the claim was sent, not when the answer came: however slow the
    answer, and however long the process was frozen, the window closes before
    another holder may act.
    """

    opened: float
    seconds: float

    def remaining(self, monotonic: float) -> float:
        """Return the seconds left; negative once it has closed."""
        return self.opened + self.seconds - monotonic

    def closed(self, monotonic: float) -> bool:
        """Return whether the holder must stop and write nothing."""
        return self.remaining(monotonic) <= 0


class ClockOffset:
    """What the database's clock shows now, without asking it.

    Each answer that carries the database's time bounds the offset to the monotonic
    clock: the instant was read between sending and receiving (Cristian, 1989). Bounds
    are intersected, so that they tighten below a round trip, and widened by the drift
    of quartz. An answer that contradicts them means that the database's clock was
    stepped (or another server answers): then the new bounds count alone.
    """

    def __init__(self) -> None:
        self._low = self._high = 0.0
        self._at: float | None = None

    @property
    def known(self) -> bool:
        """Whether an answer was seen at all."""
        return self._at is not None

    def observe(self, instant_us: int, *, sent: float, received: float) -> float:
        """Take in an answer; return by how many seconds the clock stepped, else 0.0."""
        low = instant_us / SECOND - received
        high = instant_us / SECOND - sent
        stepped = 0.0
        if self._at is not None:
            slack = DRIFT * (received - self._at) + 1e-6
            old_low, old_high = self._low - slack, self._high + slack
            if high < old_low:
                stepped = high - old_low
            elif low > old_high:
                stepped = low - old_high
            else:
                low, high = max(low, old_low), min(high, old_high)
        self._low, self._high, self._at = low, high, received
        return stepped

    def now_us(self, monotonic: float) -> int:
        """Return the database's time at that moment, never ahead of the truth."""
        age = max(monotonic - (self._at or monotonic), 0.0)
        return int((self._low + monotonic - DRIFT * age) * SECOND)

    def monotonic(self, instant_us: int) -> float:
        """Return the first moment at which the database's clock surely shows it."""
        moment = instant_us / SECOND - self._low
        age = max(moment - (self._at or moment), 0.0)
        return moment + DRIFT * age / (1 - DRIFT)

    def before(self, instant_us: int) -> float:
        """Return a moment at which the database's clock surely does not yet show it.

        What must be over by an instant of the database is over by this moment (I2):
        however long an answer took, it counts from before the question was sent.
        """
        moment = instant_us / SECOND - self._high
        age = max(moment - (self._at or moment), 0.0)
        return moment - DRIFT * age
