"""How long a run is held, and what follows from its end. Pure."""

from dataclasses import dataclass
from functools import cached_property

LONGEST = 3_600.0
"""Seconds to which holds grow: a day of failures is 25 attempts, so that twenty of
them, after which a row is parked, last most of a day."""
MAX_DOUBLINGS = 30
"""Two to the attempt is not counted further: any cap is reached by then."""
MARGIN = 0.1
"""The part of a hold that is kept free after the run's deadline."""
MAX_MARGIN = 5.0
"""The most seconds of it."""


@dataclass(frozen=True)
class Holds:
    """first * 2^n seconds at the n-th retry, up to a cap."""

    first: float
    most: float

    @cached_property
    def seconds(self) -> list[float]:
        """The holds of attempts 1, 2, 3 …; the last one is that of all later ones."""
        holds = [float(self.first)]  # a setting may be whole; a column is of floats
        while holds[-1] < self.most and len(holds) <= MAX_DOUBLINGS:
            holds.append(min(holds[-1] * 2, self.most))
        return holds


def floor(timeout: float | None) -> float:
    """Return the shortest hold in which a run of that timeout has room; in seconds."""
    if timeout is None:
        return 0.0
    return timeout + min(timeout * MARGIN, MAX_MARGIN)


def budget(hold: float, timeout: float | None) -> float:
    """Return the seconds that a run may take: it ends before its hold does.

    The rest of the hold is for what a deadline cannot interrupt at once, and for the
    report of the end.
    """
    inside = hold - min(hold * MARGIN, MAX_MARGIN)
    return inside if timeout is None else min(timeout, inside)


def is_emergency(attempt: int, after: int | None) -> bool:
    """Return whether attempt ``attempt`` (from 1) calls the emergency completion alone.

    Once the task has had ``after`` attempts it is not tried any more, also if they
    ended without a word.
    """
    return after is not None and attempt > after


def runs_emergency(attempt: int, after: int | None) -> bool:
    """Return whether the emergency follows a failure of the task in the same run."""
    return after is not None and attempt == after


def is_last(attempt: int, attempts: int) -> bool:
    """Return whether a failure of this attempt parks the row."""
    return attempt >= attempts
