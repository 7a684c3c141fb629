"""The gate of a dispatcher: so many tasks per cycle, told from what is known here."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from throttle.clock import Monotonic, monotonic
from throttle.errors import Misconfigured
from throttle.exchange import Snapshot, process
from throttle.exchange.opening import settings_of
from throttle.gate.quota import IDLE, quota, unheard
from throttle.model import STALE, TICK, Admission, Limit

INFINITE = float("inf")
CYCLE = 1.0
"""Seconds: as long as the windows that traffic is told from."""
FIRST_ANSWER = 0.5
"""Seconds that a new gate waits for the store's first answer."""


class Known(Protocol):
    """What a gate goes by: an exchange."""

    @property
    def snapshot(self) -> Snapshot:
        """What was last heard."""
        ...

    def wait(self, timeout: float) -> bool:
        """Wait for the first answer."""
        ...


@dataclass(slots=True)
class Lane:
    """One database in the running cycle."""

    limit: Limit
    quota: float = 0.0
    """What may start in this cycle, in all."""
    spent: float = 0.0
    heard: Snapshot | None = None
    """What `now` was told from."""
    now: float = 0.0
    """The quota by the newest answer; 0: the database is at its limit."""
    last: float | None = None
    """The quota of the last answer; None: there was none."""
    begun: bool = False
    """Whether this cycle's quota is known."""
    admitted: float = 0.0
    refused: float = 0.0
    would_hold: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What a gate has said about a database since its start, in tasks."""

    admitted: float
    refused: float
    would_hold: float
    """Admitted in shadow mode, and else refused."""


class Gate:
    """Says how many tasks a dispatcher may start, database by database.

    A cycle is as long as the dispatcher makes it: `cycle()` begins the next one. It is
    a second where nobody says so. In one cycle at most
    ``max((limit - traffic) * 100 / limit, 0)`` tasks pass, by the traffic at its first
    question; none while the database is at its limit. Nothing here waits or asks
    anybody: it goes by what the exchange of this process heard last. Threads may share
    a gate.

    Args:
        where: A Celery app, its settings, or a mapping of them.
        cycle: Seconds after which a cycle ends by itself; None: by `cycle()` only.
        dispatchers: How many processes dispatch by this formula at the same time:
            each takes its part of the quota.
        exchange: What to go by; else this process' own, which is started.
        wait: Seconds that are waited for the store's first answer.
        clock: The monotonic clock.

    Raises:
        Misconfigured: The settings are wrong, or there is no limit.
    """

    def __init__(
        self,
        where: Any,
        *,
        cycle: float | None = CYCLE,
        dispatchers: int = 1,
        exchange: Known | None = None,
        wait: float = FIRST_ANSWER,
        clock: Monotonic = monotonic,
    ) -> None:
        settings = settings_of(where)
        if not settings.asked_for:
            message = (
                "a gate needs throttle_limits, what each database bears per second:"
                " {'main': 5000}"
            )
            raise Misconfigured(message)
        if cycle is not None and not cycle > 0:
            message = f"a cycle must last longer than 0 seconds, not {cycle!r}"
            raise Misconfigured(message)
        if dispatchers < 1:
            message = f"dispatchers must be 1 or more, not {dispatchers!r}"
            raise Misconfigured(message)
        self._estimator = settings.estimator
        self._lanes = {name: Lane(limit) for name, limit in settings.limits.items()}
        self._part = 1.0 / dispatchers
        self._seconds = cycle
        self._clock = clock
        self._ends = 0.0
        self._turn = threading.Lock()
        self._known = exchange or process.asking(settings)
        self.cycle()
        self._known.wait(wait)

    def cycle(self) -> None:
        """A new cycle has begun: its quotas are told at its first questions."""
        with self._turn:
            self._begin(self._clock())

    def admit(self, database: str, cost: float = 1.0) -> Admission:
        """Say whether a task may start now; if so it counts as started.

        Args:
            database: One that has a limit.
            cost: How many ordinary tasks it is worth, above 0 and at most 100. It
                passes when so much is left of the cycle's quota.

        Raises:
            Misconfigured: The database has no limit, or the cost is out of bounds.
        """
        lane = self._lanes.get(database)
        if lane is None:
            raise Misconfigured(self._unknown(database))
        if not 0 < cost <= IDLE:
            message = f"a cost must be above 0 and at most {IDLE:g} tasks, not {cost!r}"
            raise Misconfigured(message)
        with self._turn:
            now = self._clock()
            if now >= self._ends:
                self._begin(now)
            left = self._left(lane, now)
            if cost <= left:
                lane.spent += cost
                lane.admitted += cost
                return Admission(True, left - cost, 0.0)
            if lane.limit.shadow:
                lane.spent += cost
                lane.admitted += cost
                lane.would_hold += cost
                return Admission(True, max(left - cost, 0.0), 0.0)
            lane.refused += cost
            return Admission(False, left, self._later(lane, cost, now))

    def remaining(self, database: str) -> float:
        """Return how many tasks may still start in this cycle; nothing is taken."""
        lane = self._lanes.get(database)
        if lane is None:
            raise Misconfigured(self._unknown(database))
        with self._turn:
            now = self._clock()
            if now >= self._ends:
                self._begin(now)
            return self._left(lane, now)

    @property
    def tallies(self) -> Mapping[str, Tally]:
        """What was said so far, by database."""
        with self._turn:
            return {
                name: Tally(
                    admitted=lane.admitted,
                    refused=lane.refused,
                    would_hold=lane.would_hold,
                )
                for name, lane in self._lanes.items()
            }

    def _begin(self, now: float) -> None:
        self._ends = INFINITE if self._seconds is None else now + self._seconds
        for lane in self._lanes.values():
            lane.begun = False
            lane.spent = 0.0

    def _left(self, lane: Lane, now: float) -> float:
        snapshot = self._known.snapshot
        if snapshot is not lane.heard:
            lane.heard = snapshot
            seen = snapshot.seen(lane.limit.database)
            if seen is not None:
                lane.last = quota(lane.limit, seen, self._estimator)
                lane.now = lane.last * self._part
        if now - snapshot.at > STALE or lane.last is None:
            lane.now = unheard(lane.limit.policy, lane.last) * self._part
        if not lane.begun or lane.now == INFINITE:
            lane.begun = True
            lane.quota = lane.now
        # What this cycle started is in the newest traffic too, so the quota of its
        # beginning counts; but nothing starts above the limit.
        return max(lane.quota - lane.spent, 0.0) if lane.now > 0 else 0.0

    def _later(self, lane: Lane, cost: float, now: float) -> float:
        if lane.now > 0 and cost > lane.quota - lane.spent:
            ends = self._ends - now
            return TICK if ends == INFINITE else max(ends, 0.0)
        return TICK

    def _unknown(self, database: object) -> str:
        known = ", ".join(sorted(self._lanes))
        return f"{database!r} has no limit in throttle_limits; those with one: {known}"
