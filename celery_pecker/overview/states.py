"""The state that people see of an entry. Pure; `list_entries` sorts by the same."""

from __future__ import annotations

STATES = ("overdue", "failing", "unreported", "undeclared", "paused", "new", "ok")
"""What needs a look comes first."""


def state(
    *,
    declared: bool,
    paused: bool,
    overdue: bool,
    new: bool,
    failing: bool = False,
    unreported: bool = False,
) -> str:
    """Return the one word for an entry.

    An undeclared entry cannot be overdue; a pause is a user's decision, so it is
    shown before what it may hide.
    """
    if not declared:
        return "undeclared"
    if paused:
        return "paused"
    if overdue:
        return "overdue"
    if failing:
        return "failing"
    if unreported:
        return "unreported"
    return "new" if new else "ok"
