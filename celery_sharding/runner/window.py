"""How far a shard runs ahead of what is written, and which item killed a process: pure.

A process that is killed says nothing. So a shard has it written down, before, which
items it may begin next (`ahead`), and after a death the killer is among these, from
the cursor on. The next process writes down a sixteenth of them before it begins them,
and the next sixteenth when they have passed: each death leaves a sixteenth of the
suspects. Once three processes died, the last of them over one item alone, it is that.

    Window     decides what is to be written as `ahead`, and whose fault deaths are
    WHOLE      the fault of the shard as a whole: reading it kills, or ending it
"""

import math

DEATHS = 3
"""Processes that died before an item is blamed. Two may be the fault of
machines: a rollout that kills, and another while the item, a long one, is run anew."""
WHOLE = -1
"""In place of an item: the shard as a whole."""
PARTS = 16
"""Of the suspects, of which one may be begun at a time. A write takes a millisecond and
a death seconds, so that halves, with the fewest of both together, would take longer."""
SPARE = 2
"""Flushes that a window should last, so that no run waits for one to go on."""
GROWTH = 2


class Window:
    """Which items may be begun; made anew whenever a shard is claimed.

    Items are counted as the shard counts its own. Those below `limit` may be begun
    without a write, so a short shard over which no process died is not written before
    its end. At `limit` the runner writes its cursor, and as `ahead` what `forward`
    returns; only when that is written it goes on. The same with each flush, which draws
    the limit near: fewer are under suspicion then.
    """

    __slots__ = ("_count", "_step", "_suspects_to", "guilty", "limit")

    def __init__(self, *, cursor: int, ahead: int, deaths: int, count: int) -> None:
        """Begin with what the ledger says of the shard.

        Args:
            cursor: items that have ended.
            ahead: items below it may have been begun; where it is not above the cursor
                it was not written since, and any may have been.
            deaths: processes that died over it since its cursor last moved.
            count: all its items.
        """
        self._count = count
        until = min(ahead, count) if ahead > cursor else count
        self._suspects_to = until if deaths else cursor
        self._step = -(-(until - cursor) // PARTS) if deaths else 0
        # A thousand short shards may have been in hand when one of them killed. Each is
        # claimed alone from then on, and but for that one none is to pay for it: to
        # search each of them took a minute where all of the job took a second.
        accused_with_others = deaths == 1 and ahead <= cursor
        self.limit = until if not deaths or accused_with_others else cursor
        """Items below it may be begun."""
        self.guilty = _failed_alone(cursor, until, deaths, count)
        """The item that killed, WHOLE, or None: none, as far as is known. The
        runner records it with Code.DIED, and goes on behind it."""

    def isolating(self, cursor: int) -> bool:
        """Return whether a killer is looked for: nothing else may run beside it."""
        return cursor < self._suspects_to

    def forward(self, cursor: int, *, rate: float, flush: float) -> int:
        """Return what is to be written as `ahead`: the new limit, once it is written.

        Args:
            cursor: items that have ended, which is written with it.
            rate: items per second lately; 0: not known.
            flush: seconds between two writes.
        """
        lasting = max(math.ceil(rate * flush * SPARE), 1)
        step = self._step or lasting
        if self._step and not self.isolating(cursor):
            # It grows back from what the search left, for killers have neighbours.
            step = self._step = min(self._step * GROWTH, lasting)
            if step == lasting:
                self._step = 0
        until = self._suspects_to if self.isolating(cursor) else self._count
        self.limit = max(cursor, min(cursor + step, until))
        return self.limit


def _failed_alone(cursor: int, until: int, deaths: int, count: int) -> int | None:
    if deaths < DEATHS:
        return None
    suspects = until - cursor
    if suspects == 1:
        return cursor
    if suspects < 1:
        return WHOLE
    # Each process writes a part of them down before it begins one. Where they do not
    # become fewer, it dies before that: over reading the items, or decoding them.
    left = -(-count // PARTS ** (deaths - DEATHS))
    return WHOLE if suspects > left else None
