"""What happens in a run, drawn from a seed. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

FAILURES = (
    *("kill host", "kill both", "kill all"),
    *("freeze host", "freeze both", "block"),
)
"""Six: a host; it and its supervisor; all of them; frozen; code that never yields."""
MOMENTS = ("claim", "start", "beat", "stop", "drain")
"""What the host that is hit is just doing."""
KINDS = (*product(FAILURES, MOMENTS), ("nothing", "restart"))


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happens."""

    failure: str
    moment: str
    host: int
    """Which of the hosts, where the moment does not choose one."""
    seconds: float
    """How long a frozen one stays frozen, or a draining one draining."""
    names: tuple[float, ...] = ()
    """Who is stopped or restarted, as parts of the number of those that run."""


def events(count: int, *, hosts: int, seed: int) -> Iterator[Event]:
    """Yield so many events: each failure at each moment once before any of it twice."""
    chance = random.Random(seed)
    bag: list[tuple[str, str]] = []
    for _ in range(count):
        if not bag:
            bag = [*KINDS]
            chance.shuffle(bag)
        failure, moment = bag.pop()
        yield Event(
            failure=failure,
            moment=moment,
            host=chance.randrange(hosts),
            seconds=chance.choice((0.5, 2.0, 6.0)),
            names=tuple(chance.random() for _ in range(5)),
        )
