"""A limit that a person sets at run time: for a while, with a name beside it."""

from __future__ import annotations

from datetime import timedelta

from throttle.clock import now
from throttle.errors import Misconfigured
from throttle.model import Limit, Store
from throttle.units import ADJUSTED, ADJUSTED_FOR

LONGEST = ADJUSTED_FOR
"""Seconds."""
LONGEST_NAME = 100


def adjust(
    store: Store, limit: Limit, operations: float | None, seconds: float, who: str
) -> str:
    """Set a database's limit for so many seconds; None: that of the settings.

    What is limited in seconds changes in the same proportion. Return what people are
    shown of it. Raises `Misconfigured` for what cannot be, and `StoreUnavailable`.
    """
    if operations is None:
        store.adjust(limit.database, 1.0, "", 0.0)
        return f"the limit of the settings, {limit.operations:g} operations/s"
    factor = operations / limit.operations
    if not 0 < factor <= ADJUSTED:
        most = limit.operations * ADJUSTED
        message = f"operations must be above 0 and at most {most:g}, not {operations!r}"
        raise Misconfigured(message)
    if not 1 <= seconds <= LONGEST:
        message = f"seconds must be 1 to {LONGEST}, not {seconds!r}"
        raise Misconfigured(message)
    until = (now() + timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S UTC")
    message = f"{operations:g} operations/s until {until}, set by {who[:LONGEST_NAME]}"
    store.adjust(limit.database, factor, message, seconds)
    return message
