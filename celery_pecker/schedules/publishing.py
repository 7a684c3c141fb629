"""What is asked of a publisher, and how log lines name entries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from celery_pecker.publisher.dispatch import Dispatch

SAMPLE = 5
"""Entries that a log line names at most."""


def sample(names: Sequence[str]) -> str:
    """Return the first few names, for a log line."""
    return ", ".join(names[:SAMPLE]) + (" …" if len(names) > SAMPLE else "")


class Publisher(Protocol):
    """The seam to the broker (celery_pecker.publisher)."""

    def ensure(self) -> None:
        """Be connected, or raise BrokerUnavailable."""
        ...

    def publish(self, batch: Sequence[Dispatch], token: str, *, within: float) -> None:
        """Put the batch on the broker within so many seconds, or raise."""
        ...

    def prepare(self, names: Iterable[str]) -> None:
        """Build the messages of these entries, unless they are built."""
        ...

    def prepare_more(self, *, within: float) -> bool:
        """Build others for so many seconds; return whether there is still more."""
        ...
