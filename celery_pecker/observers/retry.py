"""When the code of an observer that failed is called again. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from celery_pecker.kernel.declared import is_whole
from celery_pecker.kernel.errors import Misconfigured

MAX_TIMES = 1_000_000
LONGEST = 86_400.0
"""Seconds."""
LEAST_HEALTHY = 60.0
"""Seconds."""


@dataclass(frozen=True, slots=True)
class Retry:
    """How often, and after how many seconds, failed code is called again.

    ``Retry(1000)`` tries 1,000 times, a second apart; ``Retry(5, (60, 240, 600))``
    five times, after 1, 4, 10, 10 and 10 minutes; ``Retry(None)`` for ever. What still
    fails after the last try is parked.

    A life that lasted for the longest of the waits, and a minute at least, was well:
    the next failure counts as the first.
    """

    times: int | None = None
    """None: for ever."""
    delays: Sequence[float] = (1.0,)
    """Seconds before each try; the last one for all further tries."""

    def __post_init__(self) -> None:
        """Refuse what is no policy."""
        if self.times is not None and not is_whole(self.times, 0, MAX_TIMES):
            Misconfigured.refuse(
                "Retry times",
                self.times,
                f"is a whole number from 0 to {MAX_TIMES}, or None: for ever",
            )
        delays: Any = self.delays
        if (
            not isinstance(delays, (list, tuple))
            or not delays
            or not all(
                isinstance(one, (int, float)) and 0 <= one <= LONGEST for one in delays
            )
        ):
            Misconfigured.refuse(
                "Retry delays",
                delays,
                f"is a list of seconds, each from 0 to {LONGEST:g}",
            )

    def delay(self, failures: int) -> float | None:
        """Return the seconds to wait after so many failures in a row; None: park it."""
        if self.times is not None and failures > self.times:
            return None
        return float(self.delays[min(max(failures, 1), len(self.delays)) - 1])

    def failures(self, before: int, lived: float) -> int:
        """Return the failures in a row, after one of a life of so many seconds."""
        was_well = lived >= max(LEAST_HEALTHY, *self.delays)
        return 1 if was_well else before + 1
