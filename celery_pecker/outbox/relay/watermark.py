"""Below which id nothing is left. Pure.

Deleted rows stay in the index until a vacuum, and a held snapshot keeps them there: a
claim that walks from the start walks over all of them (54 ms became 210 at 200,000).
But ids become visible out of order, since transactions commit out of order. So an id
counts as passed once every transaction has ended that was under way when a claim had
chosen up to it, and a later claim, which saw what these wrote, has come as far.

Which transactions are under way is known in two ways. A claim says which is the oldest:
that costs nothing, but one that is long and writes elsewhere keeps the mark where it
is. Then the locks are asked which transactions write into this table.
"""

from collections import deque
from collections.abc import Collection

STUCK_INTERVAL = 1.0
"""Seconds between two reads of the writers."""
REMEMBERED = 64
"""Claims whose transactions are not known to have ended."""
PREPARED = "prepared"
"""Names each transaction that was prepared: it is another one's under a new name."""


class Watermark:
    """From where the next claim walks."""

    def __init__(self) -> None:
        self.above: int | None = None
        """The id above which the next claim walks; None: not known yet."""
        self._pending: deque[tuple[int, int]] = deque(maxlen=REMEMBERED)
        self._seen: int | None = None
        self._since = float("-inf")
        """When the mark last moved, or the writers were last read."""
        self._asked: tuple[int, frozenset[str]] | None = None
        """Up to which id claims had chosen, and the writers at that time."""

    def chosen(
        self, above: int, last: int | None, *, whole: bool, oldest: int, newest: int
    ) -> None:
        """Take in a claim: the highest id it chose, and the transactions it saw.

        Args:
            above: From where it walked.
            last: Up to this id it has left out nothing that it saw; None: unknown.
            whole: Whether it has left out nothing at all.
            oldest: Every transaction before this one had ended.
            newest: This one and those after it had not begun.

        """
        passed = above if self.above is None else self.above
        while self._pending and self._pending[0][1] <= oldest:
            settled, _ = self._pending.popleft()
            # This claim has seen all up to there, and may have been full before it.
            reached = settled if whole else min(settled, last or passed)
            passed = max(passed, reached)
        self.above = passed
        if last is None:
            return
        if len(self._pending) == REMEMBERED:
            # The oldest stays: it is the first whose transactions end.
            self._pending.pop()
        self._pending.append((last, newest))

    def stuck(self, monotonic: float) -> bool:
        """Return whether to read the writers: the end of one is overdue."""
        if not self._pending or self.above != self._seen:
            self._seen, self._since = self.above, monotonic
        return monotonic - self._since >= STUCK_INTERVAL

    def writers(self, names: Collection[str], monotonic: float) -> None:
        """Record the writers of the table, read after the last claim."""
        self._since = monotonic
        before, self._asked = self._asked, None
        if not self._pending:
            return
        upto = self._pending[-1][0]
        if not names:
            self._settle(upto)
            return
        if before is not None:
            until, writing = before
            if writing.isdisjoint(names) and PREPARED not in names:
                self._settle(until)
        self._asked = upto, frozenset(names)

    def lower(self, above: int) -> None:
        """Walk from there: something was seen above it that was left out."""
        self.above = above
        self._pending.clear()
        self._asked = None

    def _settle(self, upto: int) -> None:
        """Have the next claim pass this id, whatever transactions there are."""
        while self._pending and self._pending[0][0] <= upto:
            self._pending.popleft()
        self._pending.appendleft((upto, 0))


SLICE_INTERVAL = 1.0
"""Seconds between two slices."""
REST_INTERVAL = 30.0
"""Seconds between two walks from the start to the watermark."""
FIRST = 20_000
LEAST, MOST = 1_000, 1 << 40
SHORT, LONG = 0.002, 0.010
"""Seconds of a slice: below the first the next is longer, above the second shorter."""
FACTOR = 8


class StragglerScan:
    """Chooses which ids below the watermark are looked at next.

    Nothing should wait there. But ids can be made anew (a sequence that was set back,
    or hands them out in bundles), rows changed by hand, and a batch deleted: each would
    wait for ever.

    A look at all of it at once would walk over every row that was deleted and is still
    in the index: 377 ms for a million under a held snapshot. So a slice is as long as
    can be walked in some milliseconds: few ids where rows died lately, millions where a
    vacuum was.
    """

    def __init__(self) -> None:
        self._at = 0
        self._size = FIRST
        self._next_at = float("-inf")

    def slice(self, passed: int | None, monotonic: float) -> tuple[int, int] | None:
        """Return after which id and up to which one to look now, None for not now."""
        if not passed or monotonic < self._next_at:
            return None
        after = self._at if self._at < passed else 0
        return after, min(after + self._size, passed)

    def looked(
        self, upto: int, passed: int, *, seconds: float, monotonic: float
    ) -> None:
        """Take in that a slice was looked at, and for how long."""
        ended = upto >= passed
        self._at = 0 if ended else upto
        self._next_at = monotonic + (REST_INTERVAL if ended else SLICE_INTERVAL)
        if seconds < SHORT:
            self._size = min(self._size * FACTOR, MOST)
        elif seconds > LONG:
            self._size = max(self._size // FACTOR, LEAST)
