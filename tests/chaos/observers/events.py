"""What happens in a run, drawn from a seed. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

KINDS = (
    *("kill host", "kill both", "freeze host", "freeze both"),
    *("block", "stop", "restart", "drain"),
)

NAMED = ("stop", "restart")
"""What is done to observers, not to hosts."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happens."""

    kind: str
    host: int
    """Which of the hosts."""
    seconds: float
    """How long a frozen one stays frozen, or a draining one draining."""
    names: tuple[float, ...] = ()
    """Who is stopped or restarted, as parts of the number of those that run."""


def events(count: int, *, hosts: int, seed: int) -> Iterator[Event]:
    """Yield so many events: each kind once before any of them twice."""
    chance = random.Random(seed)
    bag: list[str] = []
    for _ in range(count):
        if not bag:
            bag = [*KINDS]
            chance.shuffle(bag)
        kind = bag.pop()
        yield Event(
            kind=kind,
            host=chance.randrange(hosts),
            seconds=chance.choice((0.5, 2.0, 6.0)),
            names=tuple(chance.random() for _ in range(5)) if kind in NAMED else (),
        )
