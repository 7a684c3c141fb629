"""The state that people see of an entry. Pure; `list_entries` sorts by the same."""

from __future__ import annotations

STATES = (
    *("overdue", "unclaimed", "failing", "unreported"),
    *("undeclared", "paused", "new", "ok"),
)
"""What needs a look comes first."""


def state(*, declared: bool, paused: bool, new: bool, **signs: bool) -> str:
    """Return the one word for an entry.

    An undeclared entry cannot be overdue; a pause is a user's decision, so it is
    shown before what it may hide. ``signs``: which of the others it shows.
    """
    if not declared:
        return "undeclared"
    if paused:
        return "paused"
    shown = (one for one in STATES if signs.get(one))
    return next(shown, "new" if new else "ok")
