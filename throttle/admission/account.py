"""What one worker may do to one database, and has done.

Workers that want too little each to use it well take turns.

Where a second of a worker's share holds less than a few runs, each worker is above its
share in one second and below it in the next, and the sum of many such workers is far
from even. So fewer of them want a share at a time, each for a while and enough for a
few runs a second, and the others let them. The turns need no agreement:
each worker has a random phase, and the store deals out shares that are not wanted.

A run that is larger than a second of a fair share needs one: its worker asks the store
(the script ``exchange.lua``), and only while that is away each goes by its phase.
"""

from collections import deque
from dataclasses import dataclass
from math import sqrt

from throttle.admission.costs import Cost, Expected, UnderWay
from throttle.admission.flow import DOUBT, HEADROOM, Flow
from throttle.model import (
    NOTHING,
    STALE,
    TICK,
    Amount,
    Estimator,
    Limit,
    Policy,
    Seen,
    Target,
)

ENOUGH = 4.0
"""Runs that a second of a share should hold."""
PERIOD = 20.0
"""Seconds in which each worker has one turn. Each change loses a share for 100 ms."""


START = 0.25
"""Seconds for which a worker may start a run on its own, once in the time that pays for
it."""


def may_start(period: float, phase: float, now: float) -> bool:
    """Return whether a worker may start a large run now that cannot ask for its turn.

    `period`: seconds in which its rate pays for the run; `phase`: of the worker, 0 … 1.
    All that waited for the store would start at one moment otherwise.
    """
    period = max(period, START)
    return (now + phase * period) % period < START


def has_turn(part: float, holders: int, phase: float, now: float) -> bool:
    """Return whether a worker should want a share now.

    `part`: of the limit, what one run costs; `phase`: of the worker, 0 … 1.
    """
    if holders <= 1 or part <= 0:
        return True
    turns = 1 / (holders * ENOUGH * part)
    return (now / PERIOD + phase) % 1.0 < turns


UNHEARD = 0.05
"""Part of the limit that is taken for the share where none was ever heard of (safe)."""
SECOND = 1.0
DEFER = 0.3
"""Seconds of its rate that a worker saves up first when all do twice the limit."""
MORE = 1.25
"""So much more than it does may a worker do before it has asked for more."""
EVEN = 0.5
"""Seconds; runs that take longer come out even by themselves: workers take no turns."""
TRUSTED = 0.2
"""Seconds for which a turn is used, from when it was asked for: else the next worker's
has come."""
WAITS = 0.15
"""Seconds since a run was refused for want of a turn: it still waits for one."""
GREATER = 0.001
"""Part of the limit by which a share must have risen to be news."""
AHEAD = 0.1
"""Part of what there is that runs of one kind, let in ahead, may take."""
LEAST_AHEAD, MOST_AHEAD = 4, 64
"""Runs that are let in ahead, at least (else one by one) and at most."""
SOON = 0.001
"""Seconds for which a reading of the room stays valid."""
TENANTS = 1000
NO_DEFER: tuple[float, ...] = (0.0, 0.0)
NONE_EXPECTED = Expected(Target(""), "", Cost(0.0))
OVER = UnderWay(NONE_EXPECTED, 0.0, NOTHING, 0.0)
"""What is expected of a run that has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One database as this worker sees it, beside its `Holding`: for people."""

    share: float
    """Its part of the limit, by the last answer."""
    own: Amount
    """What it did within the last second."""
    expected: Amount
    """Return what it let in and has not seen yet."""
    policy: Policy | None
    """The one in force, because the store is away; None: it is not."""
    seen: Seen | None


class Account:
    """One database."""

    def __init__(self, limit: Limit, now: float, phase: float) -> None:
        self.limit = limit
        self.operations = Flow(now)
        seconds = () if limit.seconds is None else (limit.seconds,)
        self._limits = (limit.operations, *seconds)
        self._flows = (self.operations, *(Flow(now) for _ in seconds))
        """Of operations and, where they have a limit, of seconds; pairs of a run or of
        an amount have both, in this order."""
        self.runs = 0
        """Under way."""
        self.admitted = 0
        self.would_hold = 0
        self.tenants: dict[str, int] = {}
        self.share = 0.0
        self.seen: Seen | None = None
        self.waiting = NOTHING
        self._phase = phase
        self._lump = NOTHING
        """What the run costs that was refused last."""
        self._turn = -TRUSTED
        """When the turn was asked for that is to be used."""
        self._waits = (-WAITS, 0.0)
        """When a run was refused for want of a turn, and its part of the limit."""
        self._answered_at = now
        self._defer = NO_DEFER
        self._cautious = 0.0
        """Standard deviations of what is under way to keep free."""
        self._own: deque[tuple[float, Amount]] = deque()

    # What is in force

    def policy(self, now: float) -> Policy | None:
        """Return the policy in force; None: the store is there."""
        return self.limit.policy if now - self._answered_at > STALE else None

    def update(self, seen: Seen, now: float) -> bool:
        """Take what the store says of this database; return whether it opens anything.

        A greater share, an answer after none, or a turn: what is held need not wait
        for the timer to be looked at.
        """
        opens = bool(seen.turn) or now - self._answered_at > STALE
        opens = opens or seen.share > self.share + GREATER
        self.refill(now)
        self.seen, self.share = seen, seen.share
        self._answered_at = max(now, self._answered_at)
        if seen.turn:
            self._turn = max(now, self._turn)
        # Deviations of many workers add up by their squares
        self._cautious = DOUBT * sqrt(max(self.share, 0.0))
        # What each worker sees of its own does for one that is alone
        others = DEFER * (1 - self.share)
        traffic = seen.traffic.get(Estimator.FAST, NOTHING)
        factor = max(seen.factor, 0.01)
        self._defer = tuple(
            min(max(others * (done / limit / factor - HEADROOM), 0.0), SECOND)
            for done, limit in zip(traffic, self._limits, strict=False)
        )
        return opens

    def refill(self, now: float) -> None:
        """Note that room has grown since the last look."""
        part = self.share
        if now - self._answered_at > STALE:
            part = UNHEARD if self.seen is None else self.share / 2
            self._defer = NO_DEFER
        for flow, limit in zip(self._flows, self._limits, strict=True):
            flow.refill(now, part * limit)

    # What goes in and comes out

    def enter(self, kind: Expected, now: float) -> float:
        """Return 0.0 and let a run in, or the seconds to wait."""
        wait = self._wait(kind, now)
        if wait:
            self._lump = kind.cost.amount if kind.cost.duration <= EVEN else NOTHING
            if not self.limit.shadow:
                return wait
            self.would_hold += 1
        self.runs += 1
        for flow, (mean, variance) in zip(self._flows, kind.parts, strict=False):
            flow.admit(mean, variance, kind.spread)
        self.admitted += 1
        self._count(kind.target[1], 1)
        if kind.young:
            kind.cost.enter(now)
        return 0.0

    def let_in_ahead(self, kind: Expected, now: float) -> None:
        """Take the cost of some more runs of a kind that has plenty of room.

        Until the next reading each of them is let in by a look at one number. They are
        a small part of what there is: others are not kept out, and what was not used
        is refunded.
        """
        if kind.young or self.limit.shadow or now - self._answered_at > STALE:
            return
        parts = list(zip(self._flows, kind.parts, strict=False))
        fit = min(flow.fits(mean, AHEAD) for flow, (mean, _) in parts)
        runs = int(min(fit, MOST_AHEAD))
        if runs < LEAST_AHEAD:
            return
        kind.ahead = kind.passes = runs
        kind.until = min(now + TICK, self._answered_at + STALE)
        self.runs += runs
        for flow, (mean, variance) in parts:
            flow.admit(mean * runs, variance * runs, kind.spread)

    def settle(self, kind: Expected) -> None:
        """Count the runs that came of those let in ahead; free what the others took."""
        if not kind.ahead:
            return
        came = kind.ahead - kind.passes
        self.admitted += came
        self._count(kind.target[1], came)
        if kind.passes:
            self.end(kind, kind.passes)
        kind.ahead = kind.passes = 0

    def _count(self, tenant: str, runs: int) -> None:
        counts = self.tenants
        if tenant in counts:
            counts[tenant] += runs
        else:
            counts[tenant] = runs
            if len(counts) > TENANTS:
                del counts[next(iter(counts))]

    def _wait(self, kind: Expected, now: float) -> float:
        if now - self.operations.at > SOON:
            self.refill(now)
        if now - self._answered_at > STALE:
            if self.limit.policy is Policy.OPEN:
                return 0.0
            if self.limit.policy is Policy.CLOSED:
                return TICK
        if kind.young and kind.cost.crowded(now):
            return TICK
        large = self._large(kind)
        # Turns see to it that all together do not do more than they should
        defer = NO_DEFER if large else self._defer
        wait = 0.0
        for flow, (mean, variance), saved in zip(
            self._flows, kind.parts, defer, strict=False
        ):
            more = flow.wait(mean, variance, kind.spread, self._cautious, saved)
            wait = max(wait, more)
        if not wait and large:
            return self._take_turn(kind, now)
        return wait

    def _large(self, kind: Expected) -> bool:
        """Return whether a run exceeds a second of the share, beside other workers."""
        if self.seen is None or self.seen.holders <= 1 or self.seen.turn is None:
            return False
        parts = zip(self._flows, kind.parts, strict=False)
        return any(mean > flow.rate for flow, (mean, _) in parts)

    def _take_turn(self, kind: Expected, now: float) -> float:
        """Return 0.0 if the turn is this worker's, and take it; else ask for it."""
        part = self.limit.fraction(kind.cost.amount)
        if now - self._answered_at > STALE:
            period = part / max(self.share / 2, UNHEARD)
            return 0.0 if may_start(period, self._phase, now) else TICK
        if now - self._turn <= TRUSTED:
            self._turn = -TRUSTED
            self._waits = (-WAITS, 0.0)
            return 0.0
        self._waits = (now, part)
        for flow, (mean, _) in zip(self._flows, kind.parts, strict=False):
            flow.save(mean)
        return TICK / 2

    def revise(self, was: Expected | UnderWay, now: UnderWay | None) -> None:
        """Expect so much of a run under way from now on; None: nothing more."""
        if now is None:
            self.runs -= 1
            now = OVER
        parts = zip(self._flows, was.parts, now.parts, strict=False)
        for flow, (mean, variance), (left, doubt) in parts:
            flow.revise(mean, was.spread, left, now.spread, doubt - variance)

    def end(self, kind: Expected, runs: int) -> None:
        """End so many of that kind that no reading has shown under way."""
        self.runs -= runs
        for flow, (mean, variance) in zip(self._flows, kind.parts, strict=False):
            flow.revise(mean * runs, kind.spread, 0.0, 0, -variance * runs)

    def observe(self, amount: Amount, now: float) -> None:
        """Take what the meter counted since its last reading."""
        idle = self.runs == 0
        for flow, spent in zip(self._flows, amount, strict=False):
            flow.observe(spent, now, idle=idle)
        self._own.append((now, amount))
        while self._own and self._own[0][0] <= now - SECOND:
            self._own.popleft()

    # What it says

    @property
    def expected(self) -> Amount:
        """Return what it let in and has not seen yet."""
        return Amount(*(flow.ahead for flow in self._flows))

    def own(self, now: float) -> Amount:
        """Return what it did within the last second."""
        total = NOTHING
        for at, amount in self._own:
            if at > now - SECOND:
                total = total.plus(amount)
        return total

    def turn(self, now: float) -> float:
        """Return the part of the limit that the run costs that waits for its turn."""
        at, part = self._waits
        return part if now - at < WAITS else 0.0

    def demand(self, now: float) -> float:
        """Return how much of the limit it could use now."""
        waiting = self.limit.fraction(self.waiting)
        holders = self.seen.holders if self.seen is not None else 1
        lump = self.limit.fraction(self._lump)
        if (
            waiting * holders > 1
            and lump * holders <= 1  # else the store says whose turn it is
            and not has_turn(lump, holders, self._phase, now)
        ):
            return 0.0
        use = self.limit.fraction(self.own(now).plus(self.expected))
        return MORE * (use + waiting)

    def state(self, now: float) -> State:
        """Return what it goes by, beside what it reports."""
        self.refill(now)
        return State(
            share=self.share,
            own=self.own(now),
            expected=self.expected,
            policy=self.policy(now),
            seen=self.seen,
        )
