"""Workers that want too little each to use it well take turns.

Where a second of a worker's share holds less than a few runs, each worker is above its
share in one second and below it in the next, and the sum of many such workers is far
from even. So fewer of them want a share at a time, each for a while and enough for a
few runs a second, and the others let them. The turns need no agreement:
each worker has a random phase, and the store deals out shares that are not wanted.

A run that is larger than a second of a fair share needs one: its worker asks the store
(the script ``exchange.lua``), and only while that is away each goes by its phase.
"""

from __future__ import annotations

ENOUGH = 4.0
"""Runs that a second of a share should hold."""
PERIOD = 20.0
"""Seconds in which each worker has one turn. Each change loses a share for 100 ms."""


START = 0.25
"""Seconds for which a worker may start a run on its own, once in the time that pays for
it."""


def may_start(period: float, phase: float, now: float) -> bool:
    """Return whether a worker may start a large run now that cannot ask for its turn.

    `period`: seconds in which its rate pays for the run; `phase`: of the worker, 0 … 1.
    All that waited for the store would start at one moment otherwise.
    """
    period = max(period, START)
    return (now + phase * period) % period < START


def has_turn(part: float, holders: int, phase: float, now: float) -> bool:
    """Return whether a worker should want a share now.

    `part`: of the limit, what one run costs; `phase`: of the worker, 0 … 1.
    """
    if holders <= 1 or part <= 0:
        return True
    turns = 1 / (holders * ENOUGH * part)
    return (now / PERIOD + phase) % 1.0 < turns
