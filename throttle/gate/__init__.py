"""Gates for senders of tasks: a dispatcher's cycle, and Pecker's schedules.

A dispatcher asks before it sends, so that a rush never becomes messages. It goes by
the traffic of all processes and the limit alone, as tasks fan out further and
their cost is not known at that point:

    quota of a cycle = max((limit - traffic) * 100 / limit, 0) tasks

and nothing while the traffic is at the limit. A worker knows more and does better
(`admission/`): this gate is for senders without a worker at hand, or for messages that
wait as rows.

    `Gate`         the cycles of a dispatcher
    ``schedules``  the same for the kernel of celery-pecker, by its shape
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from celery_pecker.kernel.clock import Monotonic, monotonic
from throttle.errors import Misconfigured
from throttle.exchange import Snapshot, process
from throttle.limits import IDLE, quota, quota_without_answer
from throttle.model import STALE, TICK, Admission, Limit
from throttle.settings import settings_of

__all__ = ["Gate", "GateTally"]

INFINITE = float("inf")
CYCLE = 1.0
"""Seconds: as long as the windows that traffic is computed from."""
FIRST_ANSWER = 0.5
"""Seconds that a new gate waits for the store's first answer."""


class SnapshotSource(Protocol):
    """What a gate goes by: an exchange."""

    @property
    def snapshot(self) -> Snapshot:
        """Return the last answer."""

    def wait(self, timeout: float) -> bool:
        """Wait for the first answer."""


@dataclass(slots=True)
class Lane:
    """One database in the running cycle."""

    limit: Limit
    quota: float = 0.0
    """What may start in this cycle, in all."""
    spent: float = 0.0
    """What has started in it."""
    left: float = 0.0
    """What may start now: all that is left, or nothing at the limit."""
    open: bool = False
    """Whether the newest answer, or the policy, lets anything start."""
    begun: bool = False
    """Whether this cycle's quota is known."""
    snapshot: Snapshot | None = None
    """What `left` was computed from."""
    until: float = 0.0
    """When that becomes stale."""
    last: float | None = None
    """The quota by the last answer; None: there was none."""
    admitted: float = 0.0
    """In the cycles before this one."""
    refused: float = 0.0
    would_hold: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GateTally:
    """What a gate has answered for a database since its start, in tasks."""

    admitted: float
    refused: float
    would_hold: float
    """Admitted in shadow mode, and else refused."""


class Gate:
    """Says how many tasks a dispatcher may start, database by database.

    `cycle()` begins a cycle, which ends with the next `cycle()`, or by itself after a
    second. In one cycle at most ``max((limit - traffic) * 100 / limit, 0)`` tasks pass,
    by the traffic at its first question; none while the database is at its limit. No
    method waits or does I/O: it goes by the last answer to the exchange of this
    process. Threads may share a gate.

    Args:
        where: A Celery app, its settings, or a mapping of them.
        cycle: Seconds after which a cycle ends by itself; None: by `cycle()` only.
        dispatchers: How many processes dispatch by this formula at the same time:
            each takes its part of the quota.
        exchange: What to go by; else this process' own, which is started.
        wait: Seconds that are waited for the store's first answer.
        clock: The monotonic clock.

    Raises:
        Misconfigured: The settings are wrong, there is no limit, or what should be
            Redis is none. A Redis that is away is no mistake: the policy holds.
    """

    def __init__(
        self,
        where: Any,
        *,
        cycle: float | None = CYCLE,
        dispatchers: int = 1,
        exchange: SnapshotSource | None = None,
        wait: float = FIRST_ANSWER,
        clock: Monotonic = monotonic,
    ) -> None:
        settings = settings_of(where)
        if not settings.enabled:
            raise Misconfigured(
                "a gate needs throttle_limits, what each database bears per second:"
                " {'main': 5000}"
            )
        if cycle is not None and not cycle > 0:
            raise Misconfigured(
                f"a cycle must last longer than 0 seconds, not {cycle!r}"
            )
        if dispatchers < 1:
            raise Misconfigured(f"dispatchers must be 1 or more, not {dispatchers!r}")
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
        """Begin a cycle; its quotas are computed at the first questions."""
        with self._turn:
            self._begin(self._clock())

    def admit(self, database: str, cost: float = 1.0) -> Admission:
        """Return whether a task may start now; if so it counts as started.

        Args:
            database: One that has a limit.
            cost: How many ordinary tasks it is worth, above 0 and at most 100. It
                passes when so much is left of the cycle's quota.

        Raises:
            Misconfigured: The database has no limit, or the cost is out of bounds.
        """
        lane = self._lanes.get(database)
        if lane is None or not 0 < cost <= IDLE:
            raise Misconfigured(self._mistake(database, cost))
        with self._turn:
            now = self._turned()
            if lane.snapshot is not self._known.snapshot or now > lane.until:
                self._look(lane, now)
            left = lane.left
            if cost <= left:
                lane.spent += cost
                lane.left = left = left - cost
                return Admission(True, left, 0.0)
            if lane.limit.shadow:
                lane.spent += cost
                lane.left = 0.0
                lane.would_hold += cost
                return Admission(True, 0.0, 0.0)
            lane.refused += cost
            # At the limit each answer may open it; else only the next cycle does.
            timed = lane.open and self._ends != INFINITE
            return Admission(False, left, self._ends - now if timed else TICK)

    def remaining(self, database: str) -> float:
        """Return how many tasks may still start in this cycle; nothing is taken."""
        lane = self._lanes.get(database)
        if lane is None:
            raise Misconfigured(self._mistake(database, 1.0))
        with self._turn:
            now = self._turned()
            self._look(lane, now)
            return lane.left

    def shut(self) -> list[str]:
        """Return the databases to which nothing may start now; nothing is taken.

        One that only has used up its cycle is not among them: it is open again in a
        second. In shadow mode none is shut.
        """
        with self._turn:
            now = self._turned()
            for lane in self._lanes.values():
                self._look(lane, now)
            return [
                name
                for name, lane in self._lanes.items()
                if not lane.open and not lane.limit.shadow
            ]

    @property
    def tallies(self) -> Mapping[str, GateTally]:
        """Return what was answered so far, by database."""
        with self._turn:
            return {
                name: GateTally(
                    admitted=lane.admitted + lane.spent,
                    refused=lane.refused,
                    would_hold=lane.would_hold,
                )
                for name, lane in self._lanes.items()
            }

    def _turned(self) -> float:
        """Return what time it is; a cycle that is over is followed by the next."""
        now = self._clock()
        if now >= self._ends:
            self._begin(now)
        return now

    def _begin(self, now: float) -> None:
        self._ends = INFINITE if self._seconds is None else now + self._seconds
        for lane in self._lanes.values():
            lane.admitted += lane.spent
            lane.spent = 0.0
            lane.begun = False
            lane.snapshot = None

    def _look(self, lane: Lane, now: float) -> None:
        """Compute what may start from what is known now."""
        lane.snapshot = snapshot = self._known.snapshot
        seen = snapshot.seen(lane.limit.database)
        if seen is not None:
            lane.last = quota(lane.limit, seen.traffic[self._estimator], seen.factor)
        if seen is not None and snapshot.fresh(now):
            known, lane.until = lane.last or 0.0, snapshot.at + STALE
        else:
            known, lane.until = (
                quota_without_answer(lane.limit.policy, lane.last),
                INFINITE,
            )
        if not lane.begun or known == INFINITE:
            lane.begun = True
            lane.quota = known * self._part
        # What this cycle started is in the newest traffic too, so the quota of its
        # beginning counts; but nothing starts above the limit.
        lane.open = known > 0
        lane.left = max(lane.quota - lane.spent, 0.0) if lane.open else 0.0

    def _mistake(self, database: object, cost: float) -> str:
        if database in self._lanes:
            return f"a cost must be above 0 and at most {IDLE:g} tasks, not {cost!r}"
        known = ", ".join(sorted(self._lanes))
        return f"{database!r} has no limit in throttle_limits; those with one: {known}"
