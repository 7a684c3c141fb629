"""A clock that never goes back, over one that may."""

from __future__ import annotations

from throttle.units import WHOLE

SECOND = WHOLE
GAP = 600_000
"""Without a reading for so long the store begins anew. A clock that is stepped forward
by less cannot make it forget a holder that still trusts its last answer: forgotten
after 1 s, trusted for 0.3 s and the time on its way."""


class Steady:
    """What the store takes for the time, in whole microseconds since 1970.

    If the clock below is stepped back, a second would be filled again and be read as
    twice the traffic: so what it was stepped back by is added from then on.
    """

    def __init__(self) -> None:
        self._latest = 0
        self._ahead = 0
        self.born = 0
        """When the store began to know who there is: at first, and again after a gap.
        Until then there may be holders that believe in shares unknown to it."""

    def peek(self, time: int) -> int:
        """Return what the clock shows when the one below shows `time`."""
        return max(time + self._ahead, self._latest)

    def read(self, time: int) -> int:
        """Return the same; it is never less from now on."""
        now = self.peek(time)
        self._ahead = now - time
        if now - self._latest >= GAP:
            self.born = now
        self._latest = now
        return now
