"""Runs that were admitted, until they have been seen to end."""

from __future__ import annotations

from dataclasses import dataclass

from throttle.admission.costs import Cost
from throttle.model import NOTHING, Amount, Target


@dataclass(slots=True, eq=False)
class Admitted:
    """A run that was let in."""

    target: Target
    task: str
    cost: Cost
    operations: float
    """Expected of it when it was let in; what is seen of it is taken off."""
    seconds: float
    spent: Amount = NOTHING
    """Seen so far."""
    ended: int = 0
    """Readings since the worker saw its end without one that told of it."""
