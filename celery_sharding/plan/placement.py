"""The same number of shards for each executor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from celery_sharding.errors import NoExecutor

Executor = TypeVar("Executor")


def assign(
    shards: int | Sequence[int], executors: Sequence[Executor]
) -> dict[Executor, list[int]]:
    """Return the shards of each executor: runs of neighbours, balanced within one.

    What is left over goes to the first executors where the number of shards is odd, and
    to the last ones where it is even: over many jobs the first are not always those
    with more. Raise NoExecutor if there are shards, and nobody to have them.
    """
    numbers = range(shards) if isinstance(shards, int) else shards
    if not executors:
        if numbers:
            message = f"{len(numbers)} shards are to be dealt, and no worker is alive"
            raise NoExecutor(message)
        return {}
    each, over = divmod(len(numbers), len(executors))
    upward = len(numbers) % 2 == 1
    dealt: dict[Executor, list[int]] = {}
    start = 0
    for place, executor in enumerate(executors):
        further = place < over if upward else place >= len(executors) - over
        end = start + each + further
        dealt[executor] = [*numbers[start:end]]
        start = end
    return dealt
