"""One step of a host: renew, look, take, report, give away.

The step runs on a thread of its own, beside the event loop on which observers run. It
is the only one that speaks with PostgreSQL. The lease is renewed only while the event
loop turns: a host that hangs is buried like one that died.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, field
from functools import partial

from celery_pecker.kernel.clock import monotonic, new_id
from celery_pecker.observers import placement
from celery_pecker.observers.hosts.events import Events
from celery_pecker.observers.hosts.lives import Life, Lives
from celery_pecker.observers.hosts.tables import Outcome, Pulse, ReportResult, Tables
from celery_pecker.observers.lease import Claimed, Trust
from celery_pecker.observers.model import Report
from celery_pecker.observers.placement import Looks

logger = logging.getLogger(__name__)

TRUSTED = 0.8
"""Part of a lease for which a host trusts it; the rest is for its last breath."""
LOOKS = 10
"""Looks at the tables in the time of one lease."""
QUICK = 0.1
"""Seconds between two looks while another host gives away what it has."""
SURVEYS = 5
"""Looks between two surveys, where nothing waits."""
BLOCKED = 0.4
"""Part of a lease after which an event loop that did not turn is called blocked."""
HANGS = 0.9
"""Part of a lease after which a blocked event loop is given up, by the host itself: the
code that holds it up has failed. Its supervisor would kill it a bit later."""
ENDING_AT_ONCE = 200
"""Observers that a draining host ends at a time."""
REPORTS_AT_ONCE = 500
START_RATE = 2_000
"""Observers that a host begins in a second, at most: after a blackout they do not all
begin at once. What a core has time for."""
HISTORY = 10_000
"""Events that are kept in pecker_observer_history: two megabytes."""
OVERTAKEN = "another life of it has begun"
PRUNED = 5_000
"""Rows that go at once, at most."""
PRUNE_INTERVAL = 60.0
"""Seconds."""


class EventLoopBlocked(Exception):
    """The code of an observer did not let the event loop turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a host runs: from its supervisor and the settings."""

    name: str
    pid: int
    capacity: int
    lease: float
    """Seconds."""
    start_rate: int = START_RATE
    """Observers that begin in a second, at most."""
    history: int = HISTORY
    """Events that are kept."""

    @property
    def look(self) -> float:
        """Seconds between two looks at the tables."""
        return self.lease / LOOKS


@dataclass(eq=False)
class Host:
    """What a host does, apart from running observers."""

    plan: Plan
    tables: Tables
    lives: Lives
    trust: Trust
    _: KW_ONLY
    on_loop: Callable[[Callable[[], None]], None]
    over: Callable[[], None]
    notices: Callable[[], None]
    events: Events
    abort: Callable[[], None]
    _gave_up: bool = False
    _joined: bool = False
    _leaving: bool = False
    _gone: bool = False
    _left_at: float | None = None
    _drained_at: float | None = None
    _looks: int = 0
    _connections: int = 0
    _differs: bool = False
    """Whether what ran here at the last comparison was not what the tables say."""
    _seen: Looks = field(default_factory=Looks)
    _settles: bool = False
    _unanswered: dict[int, Outcome] = field(default_factory=dict)
    _pruned: float = field(default_factory=monotonic)

    @property
    def node(self) -> str:
        """Id of this life of the host; empty before it has joined."""
        return self.tables.node if self._joined else ""

    @property
    def draining(self) -> bool:
        """Whether this host hands over what it has, and takes nothing more."""
        return self._drained_at is not None

    @property
    def blocked(self) -> bool:
        """Whether the event loop has not turned for too long."""
        return monotonic() - self.lives.turned > BLOCKED * self.plan.lease

    def leave(self) -> None:
        """Hand over the observers of this host, and end; safe in a signal handler."""
        if self._left_at is None:
            self._left_at = monotonic()
        self._leaving = True

    def failed(self) -> None:
        """End a host that leaves and cannot say so: its lease is over by now.

        The database may be away, gone for good, or refuse its role.
        """
        if self._leaving and self._give_up_waiting():
            self.over()

    def step(self) -> float:
        """Do what there is to do; return the seconds until the next look."""
        if self._gone:  # woken once more before the process ends: it must not join
            return self.plan.look
        if self.blocked or self._gave_up:
            self._hang()
            return self.plan.look
        if self.lives.stuck and not self._leaving:
            logger.error(
                "pecker: observer %s does not end; its host hands over the others and"
                " ends",
                self.lives.stuck,
            )
            self.leave()
        sent = monotonic()
        if not self._joined:
            self._join()
        pulse = self.tables.pulse()
        if pulse.state is None:
            self._buried()
            return 0.0
        self.trust.renew(sent, TRUSTED * self.plan.lease)
        self._look(pulse)
        if pulse.state == "draining" or self._leaving:
            return self._drain(pulse)
        self._drained_at = None
        if not pulse.waiting:
            self._seen.reset()
        if pulse.waiting or pulse.orphans or self._looks % SURVEYS == 0:
            self._balance()
        self._prune()
        if pulse.draining or pulse.orphans:
            return min(QUICK, self.plan.look)
        # Under a long lease what waits would be looked at only after a tenth of it.
        settles = pulse.waiting and self._settles
        look = min(placement.SETTLING, self.plan.look) if settles else self.plan.look
        return max(look - (monotonic() - sent), 0.0)

    def _hang(self) -> None:
        """Log whose code blocks the event loop; in the end report it as failed.

        Else it would be started on one host after another, each of which would hang.
        """
        life = self.lives.on_turn()
        logger.warning(
            "pecker: the event loop of this host of observers hangs%s",
            "" if life is None else f" in observer {life.claimed.name}",
        )
        since = monotonic() - self.lives.turned
        if life is not None and self._joined and since > HANGS * self.plan.lease:
            self._gave_up = True
            error = EventLoopBlocked(
                f"it held up the event loop of its host for {since:.1f} s"
            )
            error.add_note(self.lives.stack())  # for the log
            self.lives.fail_blocking(life, error)
        if self._gave_up:
            self._report()
            self.abort()

    def _look(self, pulse: Pulse) -> None:
        """Do what comes before placement: log, free, report, compare, obey."""
        self._looks += 1
        for name in pulse.buried:
            logger.warning(
                "pecker: host %s of observers is dead; others take over", name
            )
        if pulse.orphans:
            self.tables.free()
        if pulse.notices:
            self.notices()
        self._report()
        reconnected = self._connections != self.tables.database.made
        if reconnected or self._differs or self._looks % SURVEYS == 0:
            self._compare(retakes=pulse.state == "up" and not self._leaving)
        if pulse.orders:
            self._handle_commands()

    def _join(self) -> None:
        plan = self.plan
        self.tables.join(
            str(new_id()),
            name=plan.name,
            pid=plan.pid,
            capacity=plan.capacity,
            ttl=plan.lease,
            drains=self.draining,
        )
        self._joined = True
        self._seen = Looks()
        logger.info(
            "pecker: host %s of observers is up, capacity %d", plan.name, plan.capacity
        )

    def _buried(self) -> None:
        """End all that runs, which others may have taken, and begin a new life."""
        self.trust.end()
        self._unanswered.clear()
        self.lives.outcomes.clear()
        lives = [*self.lives.by_id.values()]
        self.on_loop(partial(self.lives.fence, "its host was buried", lives))
        self._joined = False

    def _report(self) -> None:
        """Write cursors, then what became of lives; locked rows come again."""
        while self.lives.fenced:
            ident = self.lives.fenced.popleft()
            life = self.lives.by_id.get(ident)
            if life is not None:
                self.lives.remove(ident, life.claimed.epoch)
        self._save()
        while self.lives.outcomes:
            outcome = self.lives.outcomes.popleft()
            self._unanswered[outcome.id] = outcome
        if not self._unanswered:
            return
        some = [*self._unanswered.values()][:REPORTS_AT_ONCE]
        for answer in self.tables.report(some):
            self._settle(self._unanswered.pop(answer.id), answer)

    def _settle(self, outcome: Outcome, answer: ReportResult) -> None:
        life = self.lives.by_id.get(outcome.id)
        if life is None or life.claimed.epoch != outcome.epoch:
            return
        if outcome.report is Report.FAILED:
            if not answer.done:
                self.on_loop(
                    partial(self.lives.end, [outcome.id], Report.RELEASED, OVERTAKEN)
                )
            return
        self.lives.remove(outcome.id, outcome.epoch)
        if answer.done:
            self.events.ended(life.claimed, outcome)
        if outcome.report is Report.RESTARTED and answer.done:
            self._begin(self.tables.read([outcome.id]), spread=False)

    def _save(self) -> None:
        cursors = self.lives.cursors
        some = {ident: cursors[ident] for ident in [*cursors][:REPORTS_AT_ONCE]}
        if not some:
            return
        written = self.tables.save(some)
        for ident, cursor in some.items():
            life = self.lives.by_id.get(ident)
            known = life is not None and life.claimed.epoch == cursor[0]
            if (ident in written or not known) and cursors.get(ident) == cursor:
                del cursors[ident]

    def _handle_commands(self) -> None:
        """End what people asked to end, or to begin anew."""
        stops, restarts, strange = [], [], []
        for order in self.tables.orders():
            life = self.lives.by_id.get(order.id)
            if life is None or life.claimed.epoch != order.epoch:
                strange.append(order)
            elif order.stop:
                stops.append(order.id)
            else:
                restarts.append(order.id)
        for order in strange:
            if order.stop:  # no host runs it: its own one lost its trust window
                self._unanswered[order.id] = Outcome(
                    id=order.id, epoch=order.epoch, report=Report.STOPPED
                )
        lives = self.lives
        self.on_loop(partial(lives.end, stops, Report.STOPPED, "it was stopped"))
        self.on_loop(partial(lives.end, restarts, Report.RESTARTED, "it begins anew"))

    def _compare(self, *, retakes: bool) -> None:
        """End lives that the tables do not have; take anew what has no life here.

        A failover may lose the newest rows and claims, also behind a pooler, whose
        connections outlive it. One sum is asked for while all is well.
        """
        self._connections = self.tables.database.made
        lives = [one for one in [*self.lives.by_id.values()] if not one.fenced]
        known = {one.claimed.id: one.claimed.epoch for one in lives}
        self._differs = self.tables.epochs() != sum(known.values())
        if not self._differs:
            return
        lost = self.tables.lost(known)
        gone = [one for one in lives if one.claimed.id in lost]
        self.on_loop(partial(self.lives.fence, "the tables do not have them", gone))
        if retakes:
            retaken = self.tables.retake([*self.lives.by_id], self._most)
            self._begin(retaken, spread=True)

    @property
    def _most(self) -> int:
        """How many observers may begin in the time of one look."""
        return max(1, int(self.plan.start_rate * self.plan.look))

    def _balance(self) -> None:
        """Take what waits and is ours to take; give away what is above our share."""
        survey = self.tables.survey()
        mine = survey.of(self.tables.node)
        if mine is None:
            return
        load = self.lives.weight
        now = monotonic()
        self._seen.add(survey, mine.kinds, now)
        self._settles = self._seen.settling(survey, now)
        if self._settles:
            return
        room = placement.room(survey, self.tables.node, load, left=self._seen.left)
        if room > 0 and any(one.kind in mine.kinds for one in survey.waiting):
            claimed = self.tables.claim(room, self._most)
            self._seen.took(len(claimed))
            self._begin(claimed, spread=True)
            return
        # What is ending already goes: counted again, too much would be given away.
        held = [
            (life.claimed.id, life.claimed.kind, life.claimed.weight)
            for life in [*self.lives.by_id.values()]
            if life.ending is None
        ]
        stays = sum(weight for _, _, weight in held)
        surplus = placement.surplus(survey, self.tables.node, stays)
        if surplus.weight > 0:
            ids = placement.choose(held, surplus)
            why = "another host has more room"
            self.on_loop(partial(self.lives.end, ids, Report.RELEASED, why))

    def _begin(self, claimed: Iterable[Claimed], *, spread: bool) -> None:
        lives: list[Life] = self.lives.add(claimed)
        for life in lives:
            self.events.begun(life.claimed)
        if lives:
            apart = 1 / self.plan.start_rate if spread else 0.0
            self.on_loop(partial(self.lives.begin, lives, apart))

    def _drain(self, pulse: Pulse) -> float:
        """Hand over what is here, a part at a time; return seconds until the next."""
        quick = min(QUICK, self.plan.look)
        if self._drained_at is None:
            self.tables.database.change("drain_observer_node", node=self.node)
            self._drained_at = monotonic()
            return quick
        if self._leaving and not self.lives.by_id:
            self.tables.database.change("end_observer_node", node=self.node)
            self._joined, self._gone = False, True
            self.over()
            return self.plan.look
        if self._leaving and self.lives.stuck and self._give_up_waiting():
            self.over()
        if not self.lives.by_id:
            # It lost its trust while it drained: what it still holds ends as the rest.
            if pulse.draining:
                self._begin(self.tables.retake([], ENDING_AT_ONCE), spread=True)
            return self.plan.look
        # The others look more often once they have seen that this host drains.
        if monotonic() - self._drained_at < self.plan.look:
            return quick
        lives = [*self.lives.by_id.values()]
        room = ENDING_AT_ONCE - sum(1 for life in lives if life.ending is not None)
        ids = [life.claimed.id for life in lives if life.ending is None][: max(room, 0)]
        why = "its host hands over"
        self.on_loop(partial(self.lives.end, ids, Report.RELEASED, why))
        return quick / 4 if lives else quick

    def _give_up_waiting(self) -> bool:
        waited = monotonic() - (self._left_at or monotonic())
        return waited > 2 * self.plan.lease

    def _prune(self) -> None:
        now = monotonic()
        if now - self._pruned > PRUNE_INTERVAL:
            self._pruned = now
            keep = self.plan.history
            self.tables.database.change("prune_observers", keep=keep, most=PRUNED)


def on(loop: asyncio.AbstractEventLoop) -> Callable[[Callable[[], None]], None]:
    """Return what calls a function on an event loop."""

    def call(function: Callable[[], None]) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(function)

    return call
