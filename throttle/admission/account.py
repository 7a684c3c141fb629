"""What one worker may do to one database, and has done."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from throttle.admission.costs import Cost
from throttle.admission.flow import Flow
from throttle.model import NOTHING, STALE, TICK, Amount, Limit, Policy, Seen

HEADROOM = 0.97
"""So much of the limit is aimed at: costs vary, and what is admitted is seen late."""
UNHEARD = 0.05
"""Part of the limit that is taken for the share where none was ever heard of (safe)."""
SECOND = 1.0


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


TENANTS = 1000


class Account:
    """One database."""

    def __init__(self, limit: Limit, now: float) -> None:
        self.limit = limit
        self.operations = Flow(now)
        self.seconds = Flow(now) if limit.seconds is not None else None
        self.expected = NOTHING
        self.admitted = 0
        self.would_hold = 0
        self.tenants: dict[str, int] = {}
        self.share = 0.0
        self.seen: Seen | None = None
        self.waiting = NOTHING
        self._since = now
        self._heard: float | None = None
        self._own: deque[tuple[float, Amount]] = deque()

    # What is in force

    def policy(self, now: float) -> Policy | None:
        """Return the policy in force; None: the store is there."""
        heard = self._since if self._heard is None else self._heard
        return self.limit.policy if now - heard > STALE else None

    def part(self, now: float) -> float:
        """Return the part of the limit to go by, without headroom."""
        if self._heard is not None and now - self._heard <= STALE:
            return self.share
        if now - (self._since if self._heard is None else self._heard) <= STALE:
            return 0.0
        return UNHEARD if self._heard is None else self.share / 2

    def heard(self, seen: Seen, now: float) -> None:
        """The store told of this database."""
        self.refill(now)
        self.seen, self.share, self._heard = seen, seen.share, now

    def refill(self, now: float) -> None:
        """Room has grown since it was looked at last."""
        part = self.part(now) * HEADROOM
        self.operations.refill(now, part * self.limit.operations)
        if self.seconds is not None:
            self.seconds.refill(now, part * (self.limit.seconds or 0.0))

    # What goes in and comes out

    def wait(self, cost: Cost) -> float:
        """Return the seconds until such a run may come in; 0.0: now."""
        wait = self.operations.wait(cost.operations)
        if self.seconds is not None:
            wait = max(wait, self.seconds.wait(cost.seconds))
        return wait

    def expect(self, operations: float, seconds: float) -> None:
        """So much more will be spent; less, if negative."""
        self.operations.take(operations)
        if self.seconds is not None:
            self.seconds.take(seconds)
        self.expected = self.expected.plus(Amount(operations, seconds))

    def count(self, tenant: str) -> None:
        """One of the tenant's runs was admitted."""
        self.admitted += 1
        counts = self.tenants
        counts[tenant] = counts.get(tenant, 0) + 1
        if len(counts) > TENANTS:
            del counts[next(iter(counts))]

    def spent(self, amount: Amount, now: float) -> None:
        """The meter counted so much since it was read last."""
        self.operations.take(amount.operations)
        if self.seconds is not None:
            self.seconds.take(amount.seconds)
        self._own.append((now, amount))
        while self._own and self._own[0][0] <= now - SECOND:
            self._own.popleft()

    # What it says

    def own(self, now: float) -> Amount:
        """Return what it did within the last second."""
        total = NOTHING
        for at, amount in self._own:
            if at > now - SECOND:
                total = total.plus(amount)
        return total

    def want(self, now: float) -> float:
        """Return how much of the limit it could use now."""
        use = self.own(now).plus(self.expected)
        return max(1.25 * self.limit.fraction(use.plus(self.waiting)), 0.0)

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


FULLY = TICK
"""Seconds to wait where nobody can say how long."""
