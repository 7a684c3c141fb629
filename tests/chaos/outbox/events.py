"""What happens in a run, drawn from a seed: half of it aimed at the windows. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from tests.integration.outbox_relay.making import POINTS

WINDOWS = [one for one in POINTS if one not in {"before claim", "after close"}]
"""Where a relay has something in hand that the table does not know yet."""
RELAY_EVENTS = ("kill relay", "freeze relay")
OTHER_EVENTS = (
    *("kill caller", "freeze caller"),
    *("restart database", "freeze database", "step clock"),
)
BROKER_EVENTS = ("restart broker", "freeze broker")


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happens."""

    kind: str
    point: str = ""
    """Aimed: where in its step the relay is hit."""
    victim: float = 0.0
    """Which of them, as a share of their number."""
    seconds: float = 0.0
    """How long it lasts: shorter and longer than a hold."""

    def __str__(self) -> str:
        """Return it for a report."""
        return " ".join(filter(None, (self.kind, self.point)))


def events(count: int, *, seed: int, own_broker: bool) -> Iterator[Event]:
    """Yield so many events; each other one is aimed."""
    chance = random.Random(seed)
    others = (*RELAY_EVENTS, *OTHER_EVENTS, *(BROKER_EVENTS if own_broker else ()))
    for number in range(count):
        aimed = number % 2 == 0
        yield Event(
            kind=chance.choice(RELAY_EVENTS if aimed else others),
            point=chance.choice(WINDOWS) if aimed else "",
            victim=chance.random(),
            seconds=chance.choice((0.2, 1.0, 3.0)),
        )
