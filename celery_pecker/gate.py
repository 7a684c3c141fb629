"""What may hold an entry back before its slot is claimed.

The kernel knows only this shape; a traffic gate, a maintenance window or a pause
fulfils it without either knowing the other.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol


class Gate(Protocol):
    """Asked before each claim, on the scheduler's thread: it must answer at once."""

    def held(self, names: Sequence[str]) -> Collection[str]:
        """Return those of the due entries to leave out of this claim.

        Their slots stay where they are and follow the entry's misfire policy.
        """
        ...


class OpenGate:
    """Holds nothing."""

    def held(self, names: Sequence[str]) -> Collection[str]:  # noqa: ARG002  # the protocol's
        """Return nothing."""
        return ()
