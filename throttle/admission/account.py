"""What one worker may do to one database, and has done."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from throttle.admission.costs import KNOWN, Cost
from throttle.admission.flow import HEADROOM, Flow
from throttle.admission.runs import Admitted
from throttle.admission.turns import has_turn
from throttle.model import (
    NOTHING,
    STALE,
    TICK,
    Amount,
    Estimator,
    Limit,
    Policy,
    Seen,
)

UNHEARD = 0.05
"""Part of the limit that is taken for the share where none was ever heard of (safe)."""
SECOND = 1.0
DEFER = 0.75
"""Seconds of its rate that a worker saves up first when all do twice the limit."""
MORE = 1.25
"""So much more than it does may a worker do before it has asked for more."""
SOON = 0.001
"""Seconds within which room need not be looked at again."""
TENANTS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One database as this worker sees it: for people."""

    share: float
    """Its part of the limit, as told last."""
    rate: float
    """Operations per second that it goes by now."""
    own: Amount
    """What it did within the last second."""
    expected: Amount
    """What it let in and has not seen yet."""
    policy: Policy | None
    """The one in force, because the store is away; None: it is not."""
    admitted: int
    would_hold: int
    seen: Seen | None
    tenants: Mapping[str, int] = field(default_factory=dict)
    """Admitted since the start, of up to 1,000 tenants."""


class Account:
    """One database."""

    def __init__(self, limit: Limit, now: float, phase: float) -> None:
        self.limit = limit
        self.operations = Flow(now)
        self.seconds = Flow(now) if limit.seconds is not None else None
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
        self._heard = now
        self._defer = (0.0, 0.0)
        self._own: deque[tuple[float, Amount]] = deque()

    # What is in force

    def policy(self, now: float) -> Policy | None:
        """Return the policy in force; None: the store is there."""
        return self.limit.policy if now - self._heard > STALE else None

    def heard(self, seen: Seen, now: float) -> None:
        """The store told of this database."""
        self.refill(now)
        self.seen, self.share = seen, seen.share
        self._heard = max(now, self._heard)
        # What each worker sees of its own does for one that is alone
        others = DEFER * (1 - self.share)
        traffic = seen.traffic.get(Estimator.FAST, NOTHING)
        limit, factor = self.limit, max(seen.factor, 0.01)
        busy = traffic.operations / limit.operations / factor
        worked = traffic.seconds / limit.seconds / factor if limit.seconds else 0.0
        self._defer = (
            min(max(others * (busy - HEADROOM), 0.0), SECOND),
            min(max(others * (worked - HEADROOM), 0.0), SECOND),
        )

    def refill(self, now: float) -> None:
        """Room has grown since it was looked at last."""
        part = self.share
        if now - self._heard > STALE:
            part = UNHEARD if self.seen is None else self.share / 2
            self._defer = (0.0, 0.0)
        self.operations.refill(now, part * self.limit.operations)
        if self.seconds is not None:
            self.seconds.refill(now, part * (self.limit.seconds or 0.0))

    # What goes in and comes out

    def wait(self, cost: Cost, now: float) -> float:
        """Return the seconds until such a run may come in; 0.0: now."""
        if now - self.operations.at > SOON:
            self.refill(now)
        if now - self._heard > STALE:
            if self.limit.policy is Policy.OPEN:
                return 0.0
            if self.limit.policy is Policy.CLOSED:
                return TICK
        if cost.runs < KNOWN and cost.crowded(now):
            return TICK
        wait = self.operations.wait(
            cost.operations,
            cost.operations_variance,
            cost.spread,
            self.share,
            self._defer[0],
        )
        if self.seconds is not None:
            more = self.seconds.wait(
                cost.seconds,
                cost.seconds_variance,
                cost.spread,
                self.share,
                self._defer[1],
            )
            wait = max(wait, more)
        if wait:
            self._lump = cost.amount
        return wait

    def admit(self, run: Admitted) -> None:
        """A run came in."""
        self.runs += 1
        self.operations.admit(run.operations, run.operations_variance, run.spread)
        if self.seconds is not None:
            self.seconds.admit(run.seconds, run.seconds_variance, run.spread)
        self.admitted += 1
        tenant, counts = run.target[1], self.tenants
        counts[tenant] = counts.get(tenant, 0) + 1
        if len(counts) > TENANTS:
            del counts[next(iter(counts))]

    def see(self, run: Admitted, spent: Amount, elapsed: float) -> None:
        """A reading told of a run under way."""
        before = (
            run.operations,
            run.seconds,
            run.spread,
            run.operations_variance,
            run.seconds_variance,
        )
        run.expect(run.left(spent, elapsed))
        self.operations.revise(
            before[0],
            before[2],
            run.operations,
            run.spread,
            run.operations_variance - before[3],
        )
        if self.seconds is not None:
            self.seconds.revise(
                before[1],
                before[2],
                run.seconds,
                run.spread,
                run.seconds_variance - before[4],
            )

    def drop(self, run: Admitted) -> None:
        """Nothing more is expected of a run."""
        self.runs -= 1
        self.operations.revise(
            run.operations, run.spread, 0.0, run.spread, -run.operations_variance
        )
        if self.seconds is not None:
            self.seconds.revise(
                run.seconds, run.spread, 0.0, run.spread, -run.seconds_variance
            )

    def observe(self, amount: Amount, now: float) -> None:
        """The meter counted so much since it was read last."""
        idle = self.runs == 0
        self.operations.observe(amount.operations, now, idle=idle)
        if self.seconds is not None:
            self.seconds.observe(amount.seconds, now, idle=idle)
        self._own.append((now, amount))
        while self._own and self._own[0][0] <= now - SECOND:
            self._own.popleft()

    # What it says

    @property
    def expected(self) -> Amount:
        """What it let in and has not seen yet."""
        seconds = self.seconds.ahead if self.seconds is not None else 0.0
        return Amount(self.operations.ahead, seconds)

    def own(self, now: float) -> Amount:
        """Return what it did within the last second."""
        total = NOTHING
        for at, amount in self._own:
            if at > now - SECOND:
                total = total.plus(amount)
        return total

    def want(self, now: float) -> float:
        """Return how much of the limit it could use now."""
        waiting = self.limit.fraction(self.waiting)
        holders = self.seen.holders if self.seen is not None else 1
        if waiting * holders > 1 and not has_turn(
            self.limit.fraction(self._lump), holders, self._phase, now
        ):
            return 0.0
        use = self.limit.fraction(self.own(now).plus(self.expected))
        return MORE * (use + waiting)

    def state(self, now: float) -> State:
        """Return all of it."""
        self.refill(now)
        return State(
            share=self.share,
            rate=self.operations.rate,
            own=self.own(now),
            expected=self.expected,
            policy=self.policy(now),
            admitted=self.admitted,
            would_hold=self.would_hold,
            seen=self.seen,
            tenants=dict(self.tenants),
        )
