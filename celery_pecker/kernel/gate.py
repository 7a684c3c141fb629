"""What may hold an entry back before its slot is claimed.

The kernel knows only this shape; a traffic gate, a maintenance window or a pause
fulfils it without either knowing the other.
"""

from collections.abc import Collection, Sequence
from typing import Protocol, TypeGuard

from celery_pecker.kernel import user_code

ALLOWED = "a collection of the names to leave out, () for none"


class Gate(Protocol):
    """Asked before each claim, on the scheduler's thread: it must answer at once."""

    def held(self, names: Sequence[str]) -> Collection[str]:
        """Return those of the due entries to leave out of this claim.

        Their slots stay where they are and follow the entry's misfire policy.
        """


class OpenGate:
    """Holds nothing."""

    def held(self, names: Sequence[str]) -> Collection[str]:
        """Return nothing."""
        return ()


def held_by(gate: Gate, names: Sequence[str]) -> set[str]:
    """Return the names that a gate holds; none, and an error in the log, if it fails.

    A mistake in a gate must not be able to stop the schedule.
    """
    return user_code.call("the gate", set(), _held, gate, names)


def _held(gate: Gate, names: Sequence[str]) -> set[str]:
    answer: object = gate.held(names)
    if not is_answer(answer):
        raise TypeError(f"held() returned {answer!r}; allowed is {ALLOWED}")
    return set(answer)


def is_answer(answer: object) -> TypeGuard[Collection[str]]:
    """Return whether this is what ``held`` may return."""
    return isinstance(answer, Collection) and not isinstance(answer, str | bytes)
