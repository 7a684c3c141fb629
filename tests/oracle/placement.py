"""Who gets which shard of an executor that died, as published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from celery_sharding.plan import assign

Executor = TypeVar("Executor")


def moves(
    assignment: Mapping[Executor, Sequence[int]], dead: Executor
) -> dict[Executor, list[int]]:
    """Return which shards of the dead executor go to which other.

    They are dealt as if there were no others: nobody's own shards move.
    """
    others = [executor for executor in assignment if executor != dead]
    return assign(sorted(assignment.get(dead, ())), others)


def reassign(
    assignment: Mapping[Executor, Sequence[int]], dead: Executor
) -> dict[Executor, list[int]]:
    """Return the assignment without the dead executor, its shards with the others."""
    return {
        executor: sorted([*assignment[executor], *orphans])
        for executor, orphans in moves(assignment, dead).items()
    }
