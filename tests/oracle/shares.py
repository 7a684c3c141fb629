"""Shares of a limit, which together are never more than there is.

All numbers are millionths of the limit, so that sums are exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.oracle.steady import SECOND
from throttle.units import WHOLE

FORGOTTEN = SECOND
"""A holder that was not heard of for so long has no share any more."""
LEARNING = 400_000
"""After the store's birth nobody gets a share for so long: then no holder trusts what
was answered before it (0.3 s, and the time of an answer on its way)."""


@dataclass(slots=True)
class Grant:
    """What is known of a holder."""

    want: int
    granted: int
    believed: int
    """The most that it may still think it has: an answer that grants less may be on its
    way, or lost, until the holder has heard it."""
    answered: int
    """When it was heard of, microseconds."""


def capacity(factor: int, outside: Sequence[float], limits: Sequence[int]) -> int:
    """Return what there is for holders: the limit less what comes from outside.

    In the scarcer dimension; `outside` in the order of `limits`, 0 is no limit.
    """
    part = 0.0
    for count, limit in zip(outside, limits, strict=False):
        if limit > 0:
            part = max(part, count / limit)
    return max(math.floor(factor - part * WHOLE), 0)


def fair(available: int, want: int, others: Iterable[int]) -> int:
    """Return the fair part of one who wants so much beside others.

    Max-min: wants are served from the smallest up, nobody who wants more gets less than
    another. What nobody wants is lent out in equal parts, so that one who has been idle
    can begin at once.
    """
    wants = sorted([*others, want])
    left = available
    for i, one in enumerate(wants):
        level = left // (len(wants) - i)
        if one > level:
            return min(want, level)
        left -= one
    return want + left // len(wants)


class Shares:
    """The holders of one database."""

    def __init__(self) -> None:
        self.grants: dict[str, Grant] = {}

    def release(self, holder: str, now: int) -> None:
        """The holder has no share, nor have those that were not heard of."""
        self.grants.pop(holder, None)
        self._forget(now)

    def grant(
        self, holder: str, now: int, *, want: int, available: int, answered: bool
    ) -> int:
        """Return the share of a holder: fair, and no more than nobody else may have.

        `heard`: it has the last answer.
        """
        self._forget(now)
        mine = self.grants.pop(holder, None)
        others = self.grants.values()
        part = fair(available, want, [one.want for one in others])
        free = available - sum(one.believed for one in others)
        granted = max(min(part, free), 0)
        before = 0
        if mine is not None:
            before = mine.granted if answered else max(mine.granted, mine.believed)
        self.grants[holder] = Grant(want, granted, max(granted, before), now)
        return granted

    def _forget(self, now: int) -> None:
        silent = [
            k for k, one in self.grants.items() if now - one.answered >= FORGOTTEN
        ]
        for holder in silent:
            del self.grants[holder]
