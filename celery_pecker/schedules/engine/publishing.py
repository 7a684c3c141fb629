"""What is asked of a publisher, and how names and instants are written."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Protocol

from celery_pecker.brokers.publisher.lanes import Dispatch
from celery_pecker.kernel.clock import from_us

Errors = Mapping[str, str]
"""By entry: why its slot was not sent, where that is known."""
NONE: Errors = MappingProxyType({})

SAMPLE = 5
"""Entries that a log line names at most."""


def sample(names: Sequence[str]) -> str:
    """Return the first few names, for a log line."""
    return ", ".join(names[:SAMPLE]) + (" …" if len(names) > SAMPLE else "")


@lru_cache(maxsize=64)
def shown(instant_us: int) -> str:
    """Return an instant as text; a batch shares a few."""
    return from_us(instant_us).isoformat(timespec="microseconds")


class Publisher(Protocol):
    """Where won slots go: the broker, or threads of this process."""

    def ensure(self) -> None:
        """Connect, or raise BrokerUnavailable."""

    def publish(self, batch: Sequence[Dispatch], token: str, *, within: float) -> None:
        """Put the batch on its way within so many seconds, or raise."""

    def prepare(self, entry: Any) -> str | None:
        """Make ready what can be made ready before a claim; return why it cannot."""
