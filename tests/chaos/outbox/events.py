"""What happens in a run, drawn from a seed: half of it aimed at the windows. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

RELAY_WINDOWS = (
    *("after claim", "before reclaim", "after reclaim", "before read", "after read"),
    *("before push", "after push", "before close"),
)
"""Where a relay has something in hand that the table does not know yet."""
WORKER_WINDOWS = (
    *("after claim_pushes", "before push", "after push"),
    *("before start", "after start", "before take", "after take"),
    *("before run", "after run", "before end", "after end"),
    *("before fail", "after fail"),
)
"""The same of a worker that runs rows: between a start, a run and its end."""
CALLER_WINDOWS = (
    *("before send", "after send"),
    *("before commit", "in commit", "after commit"),
)
OTHER_EVENTS = (
    *("kill server", "freeze server", "kill caller", "freeze caller"),
    *("restart database", "freeze database", "step clock"),
    *("cut broker", "freeze broker"),
)
AIMED_AT_CALLERS = 0.25
"""The part of the events that are aimed."""
FAILOVERS = 0.04
"""The part of the others, where there is a standby."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happens."""

    kind: str
    point: str = ""
    """Aimed: where the process is hit."""
    victim: float = 0.0
    """Which of them, as a share of their number."""
    seconds: float = 0.0
    """How long it lasts: shorter and longer than a hold; where it is aimed also for so
    long that another one has begun with what the victim has in hand."""

    def __str__(self) -> str:
        """Return it for a report."""
        return " ".join(filter(None, (self.kind, self.point)))


def events(
    count: int, *, seed: int, runs: bool = False, standby: bool = False
) -> Iterator[Event]:
    """Yield so many events; each other one is aimed.

    Args:
        count: How many.
        seed: The same for the same.
        runs: Servers are workers, else relays.
        standby: The database has one.

    """
    chance = random.Random(seed)
    windows = WORKER_WINDOWS if runs else RELAY_WINDOWS
    for number in range(count):
        kind, point = chance.choice(OTHER_EVENTS), ""
        if number % 2 == 0:
            caller = chance.random() < AIMED_AT_CALLERS
            kind = chance.choice(("kill", "freeze"))
            kind += " caller" if caller else " server"
            point = chance.choice(CALLER_WINDOWS if caller else windows)
        elif standby and chance.random() < FAILOVERS:
            kind = "fail over"
        lasts = (0.2, 3.0, 10.0) if point else (0.2, 1.0, 3.0)
        yield Event(kind, point, chance.random(), chance.choice(lasts))
