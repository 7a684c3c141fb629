"""Decide when a batch is due and what each caller gets; instants are arguments."""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from celery_pecker.kernel.declared import is_number, is_whole
from celery_pecker.kernel.errors import BatchesFull, Misconfigured

Entry = TypeVar("Entry")

LARGEST = 100_000
"""Items of one call at most."""
LONGEST = 60.0
"""Seconds that a batch is gathered for at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How large a batch is, how long it is gathered, how much may wait."""

    most: int
    """Items of one call at most."""
    wait: float
    """Seconds after the first item at which the call begins."""
    waiting: int
    """Items that no call has begun with, at most."""
    calls: int
    """Calls at one time, at most."""

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        for name, most, allowed in (
            ("most", LARGEST, f"1 to {LARGEST:,}"),
            ("waiting", math.inf, "1 and more"),
            ("calls", 1_000, "1 to 1,000"),
        ):
            value = getattr(self, name)
            if not is_whole(value, 1, most):
                Misconfigured.refuse(name, value, f"are whole numbers, {allowed}")
        if not is_number(self.wait, 0, LONGEST):
            Misconfigured.refuse("wait", self.wait, f"are 0 to {LONGEST:g} seconds")


class Gathering(Generic[Entry]):
    """Items that no call has begun with, in the order in which they came.

    Not thread-safe: the owner brings a lock, or an event loop.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.refused = 0
        """Items that were refused because too many waited."""
        self._entries: deque[tuple[float, Entry]] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: Entry, now: float) -> None:
        """Take an entry in.

        Raises:
            BatchesFull: as many as may wait do so already.
        """
        if len(self._entries) >= self.limits.waiting:
            self.refused += 1
            raise BatchesFull(
                f"{len(self._entries):,} items wait, and no more may"
                f" (waiting={self.limits.waiting:,}): nothing was sent"
            )
        self._entries.append((now, entry))

    def due_in(self, now: float, *, closing: bool = False) -> float | None:
        """Return the seconds until a call begins, 0.0 for at once; None: no items."""
        if not self._entries:
            return None
        if closing or len(self._entries) >= self.limits.most:
            return 0.0
        return max(0.0, self._entries[0][0] + self.limits.wait - now)

    def take(self) -> list[Entry]:
        """Remove the entries of one call and return them, the oldest first."""
        many = min(len(self._entries), self.limits.most)
        return [self._entries.popleft()[1] for _ in range(many)]


def checked(results: Any, items: int) -> Sequence[Any]:
    """Return the results of a call if there is one for each item.

    Raises:
        Misconfigured: there are fewer or more, or it is no sequence.
    """
    if isinstance(results, Sequence) and len(results) == items:
        return results
    many = len(results) if isinstance(results, Sequence) else "no sequence"
    raise Misconfigured(
        f"the call of a batch returned {many} for {items} items; allowed is a sequence"
        " with one result, or one exception, for each item in their order"
    )
