"""What can be wrong with a part, and how long a part that is well takes."""

from __future__ import annotations

import random
from enum import StrEnum

USUAL = 0.012
"""Median seconds until a part that is well answers."""
SPREAD = 0.6
LONGEST = 0.25
SLOW = 0.6


class Fault(StrEnum):
    """A way of being wrong."""

    SLOW = "slow"
    REFUSED = "refused"
    HANGS = "hangs"
    WRONG = "wrong"


class Latency:
    """Seeded delays, as of a network: mostly short, some long, none a fault."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def draw(self, fault: Fault | None) -> float:
        """Return the seconds before the next answer."""
        usual = self._chance.lognormvariate(0.0, SPREAD) * USUAL
        return min(usual, LONGEST) + (SLOW if fault is Fault.SLOW else 0.0)
