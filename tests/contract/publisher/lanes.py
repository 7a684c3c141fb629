"""Which way a message of an entry goes, and why."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple


class Lane(enum.StrEnum):
    """How a message gets to the broker."""

    FAST = "fast"
    SLOW = "slow"


class LaneVerdict(NamedTuple):
    """A lane, and why."""

    lane: Lane
    reason: str


def lane_of(publisher: Any, name: str) -> LaneVerdict:
    """Return the lane that an entry would take now, and why."""
    known, lane = publisher._known[name], publisher._lane
    watched = publisher._onlooker.reason()
    if watched is not None:
        return LaneVerdict(Lane.SLOW, watched)
    if name in publisher._suspects:
        return LaneVerdict(Lane.SLOW, "one of some that the broker refused together")
    if lane is not None and (why := lane.why_refused()) is not None:
        return LaneVerdict(Lane.SLOW, why)
    if known.message is not None:
        way = publisher._transport.__name__.lower()
        return LaneVerdict(Lane.FAST, f"built once, sent by the {way} lane")
    return LaneVerdict(Lane.SLOW, known.why_slow or "not built yet")
