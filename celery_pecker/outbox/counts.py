"""Add up what was counted of an outbox, and reckon what was not. Pure.

A table of a year's queue cannot be counted for each page. The oldest
rows of each index are counted; where there are more, PostgreSQL's statistics say about
how many.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

INDEXES = {
    "ready": "pecker_outbox_ready",
    "timed": "pecker_outbox_later",
    "runs": "pecker_outbox_runs",
    "parked": "pecker_outbox_parked",
}
"""Which index each kind of rows was counted by."""


class Counted(NamedTuple):
    """Rows of one task that were counted by one index."""

    kind: str
    """ready (due when it was recorded), timed, runs or parked."""
    task: str
    waiting: int
    held: int
    later: int
    parked: int
    attempt: int
    oldest: float | None
    full: bool
    """There may be more of this kind."""


@dataclass(frozen=True, slots=True)
class Totals:
    """How many rows there are."""

    depth: int
    """Due."""
    later: int
    parked: int
    counted: int
    """Rows that were counted; the others are reckoned."""
    more: bool
    """Whether there may be others."""


def indexes_to_ask(rows: Iterable[Counted]) -> set[str]:
    """Return the indexes that lead to more rows than were counted."""
    return {INDEXES[one.kind] for one in rows if one.full}


def totals(rows: Iterable[Counted], estimates: Mapping[str, int]) -> Totals:
    """Return the totals.

    Each index was walked in the order in which its rows are due. So those that were not
    counted are due later if one that was counted is, and else they count as due.

    Args:
        rows: what was counted.
        estimates: about how many rows each index that has more leads to.

    """
    rows = [*rows]
    depth = sum(one.waiting + one.held for one in rows)
    later, parked = sum(one.later for one in rows), sum(one.parked for one in rows)
    counted = depth + later + parked
    asked = indexes_to_ask(rows)
    for index in asked:
        mine = [one for one in rows if INDEXES[one.kind] == index]
        seen = sum(one.waiting + one.held + one.later + one.parked for one in mine)
        beyond = max(estimates.get(index, 0) - seen, 0)
        full = [one for one in mine if one.full]
        if any(one.parked for one in full):
            parked += beyond
        elif all(one.later for one in full):
            later += beyond
        else:
            depth += beyond
    return Totals(depth, later, parked, counted, more=bool(asked))
