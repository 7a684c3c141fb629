"""The second signal: what PostgreSQL says of itself may lower a limit.

What processes count is immediate, but it is only what they count. Where a limit has
``watch``, one process in all, elected in the store, asks that server once a second how
many backends work, how much log they write and how far its replicas are behind. It may
only lower the limit in force, for some seconds at a time, and never blames the tasks
for what comes while they do nothing.

    limit_factor  what follows from what the server says (pure)
    signal        the question to PostgreSQL, in bounded time
    `Watcher`     one thread per watched database: elected, ask, judge, tell the store

Each process that has the limits may be elected; the store keeps the verdict of the last
one, with the factor in force, so that the next one goes on from there. A verdict lapses
by itself: when all watchers are gone the limit is whole after `KEPT` seconds.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from celery_pecker.kernel.clock import SYSTEM, Monotonic, monotonic
from celery_pecker.kernel.loop import Loop
from celery_pecker.kernel.once_a_minute import OnceAMinute
from throttle.errors import ThrottleError
from throttle.model import Limit, Store
from throttle.settings import Settings
from throttle.watch.limit_factor import SILENCE_TIMEOUT, FactorVerdict, Symptom, judge
from throttle.watch.signal import Signal, Unanswered

logger = logging.getLogger("throttle")

PACE = 1.0
"""Seconds between two questions to a server."""
ELECTED = 3.0
"""Seconds after its last verdict until another may be elected."""
KEPT = 6.0
"""Seconds for which a verdict holds: the next one to be elected finds it."""
STANDING_BACK = 10.0
"""Seconds for which one without an answer lets others try."""
LEAVING = 2.0


@dataclass(eq=False, repr=False)
class Watcher:
    """Watches one database, when it is elected."""

    settings: Settings
    limit: Limit
    store: Store
    holder: str
    clock: Monotonic = monotonic

    def __post_init__(self) -> None:
        assert self.limit.watch is not None  # noqa: S101 — `start` asks for no others
        self._once = OnceAMinute(logger, prefix="throttle: ", clock=self.clock)
        self._signal = Signal(self.limit.database, self.limit.watch, clock=self.clock)
        self._judged = self.clock()
        self._back = float("-inf")
        self.elected = False
        """Whether this process is the watcher, by the last round."""
        self.verdict = FactorVerdict()
        """What this one judged last."""

    def round(self) -> float:
        """Ask once and act on the answer, if this process is elected.

        Return the seconds until the next round.
        """
        try:
            self._round()
        except ThrottleError as error:
            self._once.warning(
                "store", "no watch over %s now: %s", self.limit.database, error
            )
        return PACE

    def leave(self) -> None:
        """Let another be elected at once; close the connection."""
        self._signal.close()
        if not self.elected:
            return
        self.elected = False
        try:
            self.store.elect(self.limit.database, self.holder, 0.0)
        except ThrottleError:  # then it lapses
            return

    def _round(self) -> None:
        name = self.limit.database
        began = self.clock()
        if not self._is_elected():
            self._stand_down()
            return
        if not self.elected:
            self.elected, self.verdict, self._judged = (
                True,
                FactorVerdict(),
                self.clock(),
            )
        symptoms = self._symptoms()
        view = self.store.look().get(name)
        ours, factor = 0.0, self.verdict.factor
        if view is not None:
            ours = self.limit.fraction(view.seen.traffic[self.settings.estimator])
            factor = view.seen.factor  # the store's is the one in force
        now = self.clock()
        if now - began >= ELECTED:
            # It was frozen, or waited long. Another may watch by now, and what was
            # heard by this one is old: written now, it would revert the other's.
            self._stand_down()
            return
        before = self.verdict
        self.verdict = judge(
            replace(before, factor=factor),
            symptoms,
            ours=ours,
            elapsed=min(now - self._judged, ELECTED),
        )
        self._judged = now
        if self.verdict.factor < 1 or factor < 1:
            self.store.lower(name, self.verdict.factor, self.verdict.why, KEPT)
        if self.verdict.factor < factor:
            self._once.warning(
                "cut", "the limit of %s is lowered: %s", name, self.verdict.why
            )
        if self.verdict.silent > SILENCE_TIMEOUT:
            self._back = now + STANDING_BACK

    def _stand_down(self) -> None:
        if self.elected:
            self._signal.close()
        self.elected = False

    def _is_elected(self) -> bool:
        return self.clock() >= self._back and self.store.elect(
            self.limit.database, self.holder, ELECTED
        )

    def _symptoms(self) -> Sequence[Symptom] | None:
        try:
            symptoms = self._signal.ask()
        except Unanswered as error:
            self._once.warning("signal", "%s", error)
            return None
        if not self._signal.sees_all:
            self._once.warning(
                "rights",
                "the role that watches %s sees only its own work: grant it pg_monitor",
                self.limit.database,
            )
        return symptoms


class Watching:
    """The threads of one process."""

    def __init__(self, watchers: Mapping[str, Watcher]) -> None:
        self.watchers = watchers
        """By database."""
        self._loops = [
            Loop(
                watcher.round,
                name=f"throttle watch {name}",
                clock=SYSTEM,
                leave=watcher.leave,
            )
            for name, watcher in watchers.items()
        ]
        for loop in self._loops:
            loop.start()

    @property
    def alive(self) -> bool:
        """Return whether all of them turn."""
        return not any(loop.stopping or loop.dead for loop in self._loops)

    def stop(self, within: float = LEAVING) -> None:
        """Stop them after the question in flight; wait no longer than that."""
        for loop in self._loops:
            loop.stop()
        until = monotonic() + within
        for loop in self._loops:
            loop.join(max(until - monotonic(), 0.0))


def start(settings: Settings, store: Store, holder: str) -> Watching:
    """Watch the databases whose limits say so, until `stop()`.

    `holder` is unique per process life. The store is used from other threads than the
    caller's. Raises Misconfigured for a DSN that cannot be read; whether the server
    answers is seen later, and logged.
    """
    return Watching(
        {
            name: Watcher(settings, limit, store, holder)
            for name, limit in settings.limits.items()
            if limit.watch is not None
        }
    )
