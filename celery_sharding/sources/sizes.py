"""How many items the parts of some data have."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What parts may be like; `of` says how many items each has.

    `most` always holds. `least` holds unless all the items are fewer, or no number of
    parts would keep both (51 items by 50 to 50).
    """

    least: int
    most: int
    wanted: int
    """Parts that may run at once: executors, or the job's concurrency if it is less."""

    def of(self, items: int) -> list[int]:
        """Return the number of items of each part: all of them, balanced within one.

        As many parts as may run at once; of little data fewer, of much data the
        smallest multiple. No items: no parts.
        """
        if items <= 0:
            return []
        fewest = -(-items // self.most)
        rounds = -(-fewest // max(self.wanted, 1))
        parts = min(rounds * max(self.wanted, 1), items // self.least)
        parts = max(parts, fewest)
        each, over = divmod(items, parts)
        return [each + 1] * over + [each] * (parts - over)
