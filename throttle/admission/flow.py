"""The law of admission, in one dimension of one database: operations, or seconds.

Room grows by the rate that this worker may use, and is taken by what is admitted, at
its expected cost. Once the meter has told what a run really costs, the difference is
given back or taken too: what is left is always the truth so far. A task that is larger
than the room can ever be passes when the room is full, and its debt is paid before the
next.
"""

from __future__ import annotations

BURST = 0.1
"""Seconds of the rate that may be saved up while nothing comes."""
DEBT = 10.0
"""Seconds of the rate that may be owed: what was spent beyond that is forgiven."""


class Flow:
    """Room for work. The unit is the dimension's; times are monotonic seconds."""

    __slots__ = ("at", "burst", "rate", "room")

    def __init__(self, now: float) -> None:
        self.rate = 0.0
        self.burst = 0.0
        self.room = 0.0
        self.at = now

    def refill(self, now: float, rate: float) -> None:
        """The rate was in force since the last call."""
        elapsed = now - self.at
        if elapsed > 0:
            self.at = now
            self.rate = rate
            self.burst = rate * BURST
            room = self.room + rate * elapsed
            self.room = min(room, self.burst) if room > 0 else room

    def wait(self, cost: float) -> float:
        """Return the seconds until such a cost may come in; 0.0: now."""
        need = min(self.burst, cost)
        if self.room >= need and self.rate > 0:
            return 0.0
        if self.rate <= 0:
            return BURST
        return max((need - self.room) / self.rate, 0.001)

    def take(self, cost: float) -> None:
        """It was admitted, or was spent without being asked for."""
        self.room -= cost

    def give(self, cost: float) -> None:
        """It was admitted and is not spent after all."""
        self.room += cost
