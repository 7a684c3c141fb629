"""What a replica believes of its entries, and when it wakes for them.

The table is the truth; the agenda only says when it is worth asking. A wrong belief
costs lateness, never a slot: the claim works the slot out from the row.

All replicas wake at the due instant. One that loses an entry asks once more a little
later (a tenth of the period, at most 100 ms), and from then on wakes that much after
the winner: this is how soon it takes over when the winner dies, and the reason why
losers do not contend. Work grows with what is due, never with what is stored.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from celery_pecker.schedules.engine.bounds import latest
from celery_pecker.schedules.engine.model import ClaimedSlot, Entry, Row

STAGGER_US = 100_000
UNSURE_US = 10_000_000
"""From this period on, a stored schedule's unclaimed slot is looked for in the
table: a transaction that edits it, and is rolled back, may have held its row."""

LOST_WAIT_US = 1_000_000
"""The longest wait until the next claim of an entry whose row is held or has another
version."""


@dataclass(slots=True)
class _LastKnown:
    entry: Entry
    stagger_us: int
    ahead_us: int
    last_us: int = 0
    wake_us: int = 0
    """The planned wake-up; 0 for none."""
    era: int = 0
    won_epoch: int = 0
    won_us: int = 0
    """The last slot that was won here."""
    behind: bool = False
    """Whether another replica wins this entry's slots."""
    lost: int = 0
    """How often in a row its slot was not won, here or elsewhere."""


class Agenda:
    """Beliefs about entries by name, and a heap of wake-ups."""

    def __init__(self, entries: Iterable[Entry], *, slack_us: int) -> None:
        self._slack_us = slack_us
        self._beliefs: dict[str, _LastKnown] = {}
        self._heap: list[tuple[int, str]] = []
        for entry in entries:
            self._beliefs[entry.name] = self._belief(entry)
        self.declared = [*self._beliefs]
        """The entries of code, in the order of their declaration."""

    def __len__(self) -> int:
        """Return how many entries there are, of code and stored."""
        return len(self._beliefs)

    @property
    def names(self) -> list[str]:
        """All entries, those of code first."""
        return [*self._beliefs]

    @property
    def entries(self) -> list[Entry]:
        """All entries, of code and stored. Safe on any thread."""
        return [one.entry for one in [*self._beliefs.values()]]

    def knows(self, name: str) -> bool:
        """Return whether it is an entry of this replica, of code or stored."""
        return name in self._beliefs

    def add(self, entry: Entry, row: Row, now_us: int) -> None:
        """Take in a stored entry, new or edited; what it was before is forgotten.

        Two facts stay: that another replica wins its slots (an edit must not make all
        contend), and the last win (a claim without answer must not find it new again).
        """
        known = self._beliefs.get(entry.name)
        belief = self._beliefs[entry.name] = self._belief(entry)
        belief.won_epoch, belief.won_us = row.epoch, row.executed_us
        if known is not None:
            belief.behind = known.behind
            belief.won_epoch, belief.won_us = known.won_epoch, known.won_us
        self.update({entry.name: row}, now_us)

    def drop(self, name: str) -> None:
        """Forget an entry."""
        self._beliefs.pop(name, None)

    def _belief(self, entry: Entry) -> _LastKnown:
        period_us = entry.period_us
        return _LastKnown(
            entry=entry,
            stagger_us=min((period_us or 10 * STAGGER_US) // 10, STAGGER_US),
            ahead_us=max(self._slack_us, period_us or 0),
        )

    def entry(self, name: str) -> Entry:
        """Return the entry of that name."""
        return self._beliefs[name].entry

    def last_us(self, name: str) -> int:
        """Return the last slot that is known of."""
        return self._beliefs[name].last_us

    def current(self, entry: Entry) -> bool:
        """Return whether the entry is neither removed nor edited meanwhile."""
        belief = self._beliefs.get(entry.name)
        return belief is not None and belief.entry is entry

    def stored(self, name: str) -> Entry | None:
        """Return the entry of that name if it is a stored one."""
        belief = self._beliefs.get(name)
        if belief is None or belief.entry.version is None:
            return None
        return belief.entry

    def ahead_us(self, name: str) -> int:
        """Return how far the row may lie ahead before the clock counts as stepped back.

        The slack, or a whole period if that is longer: a daily job whose row lies ten
        minutes ahead needs no rescue, waiting costs it nothing, and a new era would
        run yesterday's slot again.
        """
        return self._beliefs[name].ahead_us

    def update(self, rows: Mapping[str, Row], now_us: int) -> None:
        """Take in what the table says, by name."""
        for name, row in rows.items():
            belief = self._beliefs.get(name)
            if belief is None:
                continue
            belief.era = row.era
            if belief.last_us != row.executed_us or not belief.wake_us:
                belief.last_us = row.executed_us
                self._plan(belief, now_us)

    def due(self, now_us: int) -> list[Entry]:
        """Take off the heap every entry whose wake-up has come."""
        entries: list[Entry] = []
        heap = self._heap
        while heap and heap[0][0] <= now_us:
            wake_us, name = heappop(heap)
            belief = self._beliefs.get(name)
            # Else a later plan replaced this one.
            if belief is not None and belief.wake_us == wake_us:
                belief.wake_us = 0
                entries.append(belief.entry)
        return entries

    def due_by(self, until_us: int) -> Iterator[str]:
        """Yield the names that are planned to wake by then, in no order.

        Walk the heap from its root: the work grows with what is due soon.
        """
        heap, places = self._heap, [0]
        while places:
            place = places.pop()
            if place < len(heap) and heap[place][0] <= until_us:
                yield heap[place][1]
                places += (2 * place + 2, 2 * place + 1)

    def next_wake_us(self) -> int | None:
        """Return the next wake-up by the database's clock, if there is one."""
        heap = self._heap
        while heap:
            wake_us, name = heap[0]
            belief = self._beliefs.get(name)
            if belief is not None and belief.wake_us == wake_us:
                return wake_us
            heappop(heap)
        return None

    def last_win(self, name: str) -> tuple[int, int]:
        """Return (epoch, slot) of the last win here that is known of."""
        belief = self._beliefs[name]
        return belief.won_epoch, belief.won_us

    def following(self, name: str, now_us: int) -> tuple[int, int]:
        """Return (slot, era) of what comes next, as far as is known."""
        belief = self._beliefs[name]
        return self._due_us(belief, now_us), belief.era

    def won(self, name: str, win: ClaimedSlot, now_us: int) -> None:
        """Take in a slot that was won here: wake at the very instant next time."""
        belief = self._beliefs[name]
        belief.behind = False
        belief.last_us = belief.won_us = win.due_us
        belief.won_epoch = win.epoch
        belief.era = win.era
        self._plan(belief, now_us)

    def lost(self, name: str, now_us: int) -> bool:
        """Take in a slot that was not won; say whether the row must be read."""
        belief = self._beliefs[name]
        if not belief.behind:
            belief.behind = True
            self._wake(belief, now_us + belief.stagger_us)
            return False
        entry = belief.entry
        edited = entry.version is not None and (entry.period_us or 0) >= UNSURE_US
        if entry.period_us is None or edited:
            # An edit in a transaction of users may hold the row, or the row has
            # a version that this replica does not run: no claim wins then.
            wait_us = min(belief.stagger_us << belief.lost, LOST_WAIT_US)
            belief.lost = min(belief.lost + 1, 10)
            self._wake(belief, now_us + wait_us)
            return True
        # A rival has it, or the next claim will show otherwise.
        belief.last_us = latest(belief.last_us, entry.period_us, now_us)
        self._plan(belief, now_us)
        return False

    def wake_at(self, name: str, wake_us: int) -> None:
        """Wake for the entry at that instant; its slot stays where it is."""
        belief = self._beliefs.get(name)
        if belief is not None:  # else it was removed meanwhile
            self._wake(belief, wake_us)

    def replan(self, now_us: int) -> None:
        """Plan every entry anew: the database's clock was stepped."""
        for belief in self._beliefs.values():
            self._plan(belief, now_us)

    def _plan(self, belief: _LastKnown, now_us: int) -> None:
        belief.lost = 0
        due_us = self._due_us(belief, now_us)
        delay_us = belief.stagger_us if belief.behind else 0
        self._wake(belief, due_us + delay_us)

    def _due_us(self, belief: _LastKnown, now_us: int) -> int:
        period_us, recurrence = belief.entry.period_us, belief.entry.recurrence
        next_us = 0
        if period_us is not None:
            next_us = belief.last_us + period_us
        elif recurrence is not None:
            next_us = recurrence.next(belief.last_us, now_us)
            if not recurrence.is_polled:
                belief.ahead_us = max(self._slack_us, next_us - belief.last_us)
        return now_us if belief.last_us > now_us + belief.ahead_us else next_us

    def _wake(self, belief: _LastKnown, wake_us: int) -> None:
        if belief.wake_us == wake_us:
            return
        belief.wake_us = wake_us
        heappush(self._heap, (wake_us, belief.entry.name))
        if len(self._heap) > 2 * len(self._beliefs) + 64:  # replaced plans lie about
            self._heap = [
                (one.wake_us, one.entry.name)
                for one in self._beliefs.values()
                if one.wake_us
            ]
            heapify(self._heap)
