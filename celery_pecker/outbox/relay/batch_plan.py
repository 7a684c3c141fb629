"""Decide which messages of a batch go together, alone or aside. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from celery_pecker.brokers.stored_message import Message

SUSPECT_TRIES = 3
"""A batch taken over so often goes one by one: one of its messages may be the cause."""
MOST_TRIES = 20
"""The first message of a batch that goes one by one is parked after so many."""
MOST_WAIT = 60.0
"""Seconds between two tries of one batch, at most."""
MOST_PAUSE = 5.0
"""Seconds between two polls of one relay, at most."""


@dataclass(slots=True)
class Plan:
    """How the messages of a batch are sent."""

    together: list[Message] = field(default_factory=list)
    alone: list[Message] = field(default_factory=list)
    parked: dict[int, str] = field(default_factory=dict)
    """Ids of those that cannot be read, and why."""


def plan(
    messages: Iterable[Message],
    *,
    check: Callable[[Message], None],
    is_batchable: Callable[[Message], bool],
    tries: int,
) -> Plan:
    """Sort the messages of a batch.

    Args:
        messages: As they are stored.
        check: Raises ValueError for one that cannot be read.
        is_batchable: Whether the broker's way to take many takes this one.
        tries: How often the batch was taken over.

    """
    parts = Plan()
    for message in messages:
        try:
            check(message)
        except ValueError as error:
            parts.parked[message.id] = f"it cannot be read: {error}"
            continue
        suspect = tries >= SUSPECT_TRIES
        fits = not suspect and is_batchable(message)
        (parts.together if fits else parts.alone).append(message)
    return parts


def to_park(messages: Sequence[Message], *, tries: int, healthy: bool) -> int | None:
    """Return the id to park of a batch that goes one by one, None if none.

    The first is the one that was tried each time.

    Args:
        messages: Those left in the batch, in order.
        tries: How often the batch was taken over.
        healthy: Whether this relay has sent others meanwhile. A broker that fails
            for all is no message's fault.

    """
    if messages and healthy and tries >= MOST_TRIES:
        return messages[0].id
    return None


def wait(tries: int) -> float:
    """Return the seconds before a batch is tried again: 0.5, 1, 2 … 60."""
    return min(0.5 * 2.0 ** min(tries, 16), MOST_WAIT)


def pause(interval: float, others: int, chance: float) -> float:
    """Return the seconds until this relay polls again.

    Many relays poll in turn: together about twice as often as one alone, since their
    instants are not in step. A tenth of it is chance, so that they stay so.
    """
    shared = max(interval, interval / 2 * (others + 1))
    return min(shared, MOST_PAUSE) * (1 - 0.1 * chance)
