"""How the lines and letters of a screen are dealt out to tables: pure."""

from __future__ import annotations

from collections.abc import Sized

from throttle.overview import Status

BESIDE = 110
"""Letters of a line from which two tables stand beside each other."""
OF_WORKER, OF_TENANT = 54, 22
"""Letters of a table's line beside the name: figures are never cut, names are."""


def needed(status: Status, wide: int) -> int:
    """Return how many lines the tables of a database would take."""
    tables = [len(one) + 1 for one in (status.workers, status.tenants) if one]
    return (max if wide >= BESIDE else sum)(tables or [0])


def dealt(status: Status, wide: int, rows: int) -> tuple[int, int]:
    """Return how many lines workers have, and tenants, below the heads of their tables.

    Below each other each gets half, and what the other one does not need.
    """
    if wide >= BESIDE:
        return rows - 1, rows - 1
    workers, tenants = (
        len(one) + 1 if one else 0 for one in (status.workers, status.tenants)
    )
    last = min(tenants, max((rows + 1) // 2, rows - workers))
    return max(rows - last - 1, 0), max(last - 1, 0)


def longest_name(wide: int) -> int:
    """Return how many letters of a name there is room for."""
    if wide < BESIDE:
        return max(wide - OF_WORKER, 8)
    return (wide - OF_WORKER - OF_TENANT) // 2


def fitting(all_: Sized, rows: int) -> int:
    """Return how many are shown in so many lines, one of which may say "more"."""
    return len(all_) if len(all_) <= rows else rows - 1
