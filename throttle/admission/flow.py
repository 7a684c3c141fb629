"""The law of admission, in one dimension of one database: operations, or seconds.

Two things have to be true before a run may start.

*Room.* It grows by the rate that this worker may use, and is taken by what is
admitted, at its expected cost. What the meter counts beyond that is taken too, what was
expected and never came is refunded: debts are paid, so the mean is the rate whatever
the estimates are worth.

*Windows.* In none of the next ten windows of a second that end at a tick may the worker
do more than it was granted: what was counted within the window, and what is expected of
the runs that are under way, spread over the time that they take. That bounds what room
does not: what was saved up, runs that waited in the pool and start together, and debts
of others that are paid back all at once.

A run that is larger than a whole second of the rate, or may be, passes alone, after a
second in which nothing was done: nothing waits for ever.
"""

from bisect import bisect_right
from collections import deque
from math import inf, sqrt

from throttle.model import TICK

HEADROOM = 0.96
"""So much of the rate is aimed at: costs vary, and what is admitted is seen late."""
BURST = 0.1
"""Seconds of the rate that are saved up while nothing comes. A worker looks at what it
holds every 50 ms: with less, what came in between is lost."""
DEBT = 10.0
"""Seconds of the rate that are owed at most, beside what the run that came in last was
expected to cost if that was much: what was spent beyond it is forgiven. Were that
forgiven too, workers with runs of a minute of their rate would do what they like."""
SLACK = 0.6
"""Part of a run's cost by which a window may be exceeded. Windows of whole runs only
would lose half a run each: much, where a window holds three."""
STEEP = 3.0
"""Where a window holds many runs the slack is less: so often the run's part of it."""
DOUBT = 1.0
"""Standard deviations of what is under way, in all workers, that are kept free."""
QUIET = 0.5
"""Part of a second of the rate that is free when a run may pass alone, whatever else is
part of it: share and readings are never quite even, so it is not the whole."""
LOOSE = 0.05
"""Part of the rate by which a run that takes longer than a tick may exceed a window: it
will be seen before it has cost much."""
NEAR = 1e-9
"""Part of a cost that sums of floats may be off."""
TICKS = 10
SPREADS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 14, 20, 30, 50, 100, 300)
"""Ticks that runs take; a run belongs to the longest that is not longer than it."""
PARTS = tuple(
    tuple(min((tick + 1) / spread, 1.0) for tick in range(TICKS)) for spread in SPREADS
)
"""Of the cost of such runs, what falls within the first tick, within two …"""


def spread_of(seconds: float) -> int:
    """Return the index of the spread of runs that take so long."""
    return max(bisect_right(SPREADS, seconds / TICK + 1e-9) - 1, 0)


class Flow:
    """Room for work. The unit is the dimension's; times are monotonic seconds."""

    __slots__ = (
        "_ahead",
        "_allowed",
        "_asked",
        "_doubt",
        "_need",
        "_past",
        "_read",
        "_short",
        "_tight",
        "_windows",
        "at",
        "rate",
        "room",
    )

    def __init__(self, now: float) -> None:
        self.at = now
        self.rate = 0.0
        """Granted, per second."""
        self.room = 0.0
        """What may come in now; negative: a debt."""
        self._asked = 0.0
        """What the run was expected to cost that came in last, if that was much."""
        self._need = 0.0
        """What the run costs that waits to come in: room is saved for it."""
        self._ahead = [0.0] * len(SPREADS)
        """Expected of the runs under way, by spread."""
        self._doubt = 0.0
        """The variance of that."""
        self._past: deque[tuple[float, float, float]] = deque()
        """Begin and end of a tick, and what was spent in it beyond what was granted."""
        self._allowed = 0.0
        """Granted since the last reading."""
        self._read = now
        self._windows = [0.0] * TICKS
        """Room in the windows that end so many ticks after the last reading."""
        self._tight = 0.0
        """The least of them."""
        self._short = 0.0
        """Admitted since, of runs that take a tick or less: it is in every window."""

    @property
    def ahead(self) -> float:
        """Return what is expected of the runs under way."""
        return max(sum(self._ahead), 0.0)

    def refill(self, now: float, rate: float) -> None:
        """Refill at the rate that was in force since the last call."""
        elapsed = now - self.at
        self.rate = rate
        if elapsed <= 0:
            return
        self.at = now
        self._allowed += rate * elapsed
        aimed = rate * HEADROOM
        room = self.room + aimed * elapsed
        most = self._need + aimed * BURST
        least = -DEBT * rate
        if room < least and rate:
            if self._asked:  # and what is expected of it is no debt yet
                least -= self._asked + self.ahead
            room = max(room, least)
        self.room = min(room, most)

    def wait(
        self, cost: float, variance: float, spread: int, cautious: float, defer: float
    ) -> float:
        """Return the seconds until such a run may come in; 0.0: now.

        `cautious`: standard deviations of what is under way to keep free. `defer`: all
        workers together do more than they should, so wait until so many seconds of the
        rate are saved up.
        """
        rate = self.rate
        if rate <= 0:
            return TICK
        aimed = rate * HEADROOM
        need = aimed * BURST
        if cost < need:  # noqa: PLR1730 — min() takes twice as long
            need = cost
        self._need = need + defer * aimed
        missing = self._need - self.room
        if missing > NEAR * need:
            return missing / aimed + 0.001
        part = cost / rate
        slack = cost * (part * STEEP if part * STEEP < SLACK else SLACK)  # noqa: FURB136
        if part > 1:
            slack += cost - rate
        variance += self._doubt
        if spread:
            slack += LOOSE * rate
        elif variance > 0:
            slack -= cautious * sqrt(variance)
        late = self.at - self._read - TICK
        if late > 0:
            slack += late * rate
        if spread == 0 and self._tight - cost >= self._short - slack:
            return 0.0
        if (spread and self._fits(cost, spread, slack)) or self._quiet(rate):
            return 0.0
        return TICK / 2

    def _quiet(self, rate: float) -> bool:
        # What varies more than a second holds fits in no window. Only its runs can
        # teach that it varies less, so it comes in one by one.
        return self._tight >= rate * QUIET and self.ahead <= NEAR * rate

    def _fits(self, cost: float, spread: int, slack: float) -> bool:
        least = self._short - slack
        parts = PARTS[spread]
        return all(
            window - cost * part >= least
            for window, part in zip(self._windows, parts, strict=True)
        )

    def fits(self, cost: float, part: float) -> float:
        """Return how many such runs fit into so small a part of what there is."""
        free = min(self.room, self._tight - self._short) * part
        if cost <= 0:
            return inf if free > 0 else 0.0
        return max(free / cost, 0.0)

    def save(self, cost: float) -> None:
        """Save up the cost of a run that waits for its turn."""
        self._need = max(self._need, cost)

    def admit(self, cost: float, variance: float, spread: int) -> None:
        """Charge a run that came in."""
        self.room -= cost
        self._asked = cost if cost > DEBT / 2 * self.rate else 0.0
        self._ahead[spread] += cost
        self._doubt += variance
        if spread == 0:
            self._short += cost
            return
        windows = self._windows
        for tick, part in enumerate(PARTS[spread]):
            windows[tick] -= cost * part
        self._tight = min(windows)

    def revise(
        self, was: float, spread: int, now: float, spread_now: int, doubt: float
    ) -> None:
        """Change what is expected of a run under way, and its variance."""
        self.room += was - now
        self._ahead[spread] -= was
        self._ahead[spread_now] += now
        self._doubt += doubt

    def observe(self, spent: float, now: float, *, idle: bool) -> None:
        """Take what was counted since the last reading; `idle`: no run is under way.

        After `refill` and after the runs of the reading were revised.
        """
        self.room -= spent
        self._past.append((self._read, now, spent - self._allowed))
        self._allowed = 0.0
        self._read = now
        if idle:  # sums of floats drift
            self._ahead = [0.0] * len(SPREADS)
            self._doubt = 0.0
        while self._past and self._past[0][1] <= now - 1:
            self._past.popleft()
        self._short = 0.0
        for tick in range(TICKS):
            since = now - 1 + TICK * (tick + 1)
            excess = 0.0
            for begin, end, over in self._past:
                if begin >= since:
                    excess += over
                elif end > since:
                    excess += over * (end - since) / (end - begin)
            ahead = 0.0
            for amount, parts in zip(self._ahead, PARTS, strict=True):
                if amount:
                    ahead += amount * parts[tick]
            self._windows[tick] = self.rate * TICK * (tick + 1) - excess - ahead
        self._tight = min(self._windows)
