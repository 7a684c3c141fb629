"""Workers with an endless backlog on one limit: a second of them takes milliseconds.

Everything is drawn from a seed. Real are `Accounts`, and the shares of the windows'
oracle; played are clocks, pools, tasks, late ticks and a store that is a little away.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from random import Random

from tests.oracle.store import Oracle
from throttle.admission import Accounts
from throttle.model import (
    Amount,
    DatabaseReport,
    Limit,
    Reading,
    Report,
    Run,
    Sample,
    Target,
)

MAIN = Target("main")
EPOCH = 1_800_000_000.0
"""Where the store's clock begins."""
BIN = 0.01
"""Seconds of the finest count of the truth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Runs of one task."""

    operations: float
    duration: float
    deviation: float = 0.0
    """Of the cost, as a part of it: 0.5 is a task that nobody can foretell well."""
    tail: float = 0.0
    """Deviation of the duration."""
    start: float = 0.0
    """Part of the cost that falls in the first tenth of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a simulation is about."""

    workers: int
    kinds: tuple[Kind, ...]
    limit: float = 5000.0
    slots: int = 100
    seed: int = 1
    seconds: float = 60.0
    warm: float = 15.0
    """Seconds before anything counts: costs are learned."""
    late: float = 0.0
    """Chance of a tick to come late, by up to 150 ms."""
    pauses: float = 0.0
    """Pauses of 50 to 300 ms per second and worker, in which its loop does nothing."""
    rivals: tuple[tuple[float, float], ...] = ()
    """Times at which that many workers fall idle (negative) or come back."""
    away: tuple[float, float] = (0.0, 0.0)
    """From when to when the store answers nobody."""
    drain: float = 0.05
    """Seconds between two looks at what is held."""


@dataclass(slots=True)
class Job:
    """One run."""

    number: int
    kind: Kind
    cost: float
    duration: float
    started: float = 0.0
    told: float = 0.0

    def spent(self, now: float) -> float:
        """Return what it has counted by then."""
        if now >= self.started + self.duration:
            return self.cost
        part = (now - self.started) / self.duration
        early = min(part / 0.1, 1.0) * self.kind.start
        return float(int(self.cost * (early + part * (1 - self.kind.start))))


@dataclass(slots=True)
class Outcome:
    """What the database saw."""

    limit: float
    seconds: list[float] = field(default_factory=list)
    """Operations of whole seconds, as parts of the limit."""
    sliding: list[float] = field(default_factory=list)
    """The same of each second that begins at a multiple of 10 ms."""

    @property
    def use(self) -> float:
        """The mean."""
        return sum(self.seconds) / len(self.seconds)

    @property
    def peak(self) -> float:
        """The greatest of the whole seconds."""
        return max(self.seconds)

    @property
    def worst(self) -> float:
        """The greatest second, wherever it begins."""
        return max(self.sliding)


class Simulation:
    """One world, from its beginning to its end."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.chance = Random(world.seed)
        self.now = 0.0
        self.store = Oracle(lambda: EPOCH + self.now)
        self.events: list[tuple[float, int, str, int, object]] = []
        self.numbers = count()
        limit = Limit(database="main", operations=world.limit)
        clock = lambda: self.now  # noqa: E731
        self.accounts = [
            Accounts({"main": limit}, clock=clock, phase=self.chance.random())
            for _ in range(world.workers)
        ]
        self.queues: list[deque[Job]] = [deque() for _ in self.accounts]
        self.running: list[dict[int, Job]] = [{} for _ in self.accounts]
        self.over: list[list[Job]] = [[] for _ in self.accounts]
        self.next: list[Job | None] = [None for _ in self.accounts]
        self.frozen = [0.0 for _ in self.accounts]
        self.read = [0.0 for _ in self.accounts]
        self.bins = [0.0] * (int(world.seconds / BIN) + 2000)
        self.started = 0
        self.reports = [0 for _ in self.accounts]
        self.busy = [True for _ in self.accounts]

    def at(self, when: float, what: str, worker: int, extra: object = None) -> None:
        """It will happen then."""
        heappush(self.events, (when, next(self.numbers), what, worker, extra))

    def run(self) -> Outcome:
        """Return what the database saw."""
        world = self.world
        for worker in range(world.workers):
            self.at(self.chance.random() * 0.1, "exchange", worker)
            self.at(self.chance.random() * world.drain, "drain", worker)
            if world.pauses:
                self.at(self.chance.expovariate(world.pauses), "pause", worker)
        for when, number in world.rivals:
            self.at(when, "rivals", 0, number)
        while self.events:
            self.now, _, what, worker, extra = heappop(self.events)
            if self.now > world.seconds:
                break
            if what in ("drain", "exchange") and self.frozen[worker] > self.now:
                self.at(self.frozen[worker], what, worker, extra)
                continue
            getattr(self, "_" + what)(worker, extra)
        return self._outcome()

    def _outcome(self) -> Outcome:
        first, last = int(self.world.warm / BIN), int(self.world.seconds / BIN)
        wide = round(1 / BIN)
        limit = self.world.limit
        outcome = Outcome(limit)
        sums = [0.0]
        for value in self.bins[first:last]:
            sums.append(sums[-1] + value)
        for begin in range(len(sums) - wide):
            part = (sums[begin + wide] - sums[begin]) / limit
            outcome.sliding.append(part)
            if begin % wide == 0:
                outcome.seconds.append(part)
        return outcome

    def _rivals(self, _worker: int, number: object) -> None:
        assert isinstance(number, int)
        for worker in range(abs(number)):
            self.busy[worker] = number > 0

    def _pause(self, worker: int, _extra: object) -> None:
        self.frozen[worker] = self.now + self.chance.uniform(0.05, 0.3)
        self.at(self.now + self.chance.expovariate(self.world.pauses), "pause", worker)

    def _drain(self, worker: int, _extra: object) -> None:
        accounts = self.accounts[worker]
        while self.busy[worker]:
            job = self.next[worker] or self._new()
            kind = f"task-{self.world.kinds.index(job.kind)}"
            if not accounts.enter(MAIN, kind, job.number):
                self.next[worker] = job
                break
            self.next[worker] = None
            self.queues[worker].append(job)
            self._fill(worker)
        big = Amount(self.world.limit * 5) if self.busy[worker] else Amount()
        accounts.waiting("main", big)
        self.at(self.now + self.world.drain, "drain", worker)

    def _new(self) -> Job:
        kind = self.chance.choice(self.world.kinds)
        cost = max(self.chance.gauss(1, kind.deviation), 0.02) * kind.operations
        if kind.deviation:
            shape = kind.deviation**-2
            cost = self.chance.gammavariate(shape, kind.operations / shape)
        duration = kind.duration
        if kind.tail:
            shape = kind.tail**-2
            duration = self.chance.gammavariate(shape, kind.duration / shape)
        return Job(next(self.numbers), kind, float(max(round(cost), 1)), duration)

    def _fill(self, worker: int) -> None:
        queue, running = self.queues[worker], self.running[worker]
        while queue and len(running) < self.world.slots:
            job = queue.popleft()
            job.started = self.now
            running[job.number] = job
            self.started += 1
            self._count(job)
            self.at(self.now + job.duration, "end", worker, job)

    def _count(self, job: Job) -> None:
        before, at = 0.0, job.started
        while before < job.cost:
            at = (int(at / BIN + 1e-6) + 1) * BIN
            spent = job.spent(at)
            where = int(at / BIN + 1e-6) - 1
            if where < len(self.bins):
                self.bins[where] += spent - before
            before = spent

    def _end(self, worker: int, job: object) -> None:
        assert isinstance(job, Job)
        del self.running[worker][job.number]
        self.over[worker].append(job)
        self.accounts[worker].over([job.number], ())
        self._fill(worker)

    def _exchange(self, worker: int, due: object) -> None:
        now, runs, fresh = self.now, [], 0.0
        over = self.over[worker]
        for job in [*over, *self.running[worker].values()]:
            spent = job.spent(now)
            fresh += spent - job.told
            job.told = spent
            ended = now >= job.started + job.duration
            runs.append(
                Run(job.number, "main", Amount(spent), now - job.started, ended)
            )
        over.clear()
        accounts = self.accounts[worker]
        accounts.observe(Reading({"main": Amount(fresh)}, tuple(runs)), now)
        span = min(max(now - self.read[worker], 0.02), 1.0)
        self.read[worker] = now
        told = DatabaseReport(
            samples=(Sample(0.0, Amount(fresh), span),),
            holding=accounts.holding("main"),
        )
        self.reports[worker] += 1
        report = Report(
            holder=str(worker),
            name=str(worker),
            databases={"main": told},
            number=self.reports[worker],
        )
        first, last = self.world.away
        if not first <= now < last:
            self._ask(worker, report)
        due = due if isinstance(due, float) else now
        due = max(due + 0.1, now + 0.005)
        late = self.world.late and self.chance.random() < self.world.late
        when = due + (self.chance.uniform(0.01, 0.15) if late else 0.0)
        self.at(when, "exchange", worker, due)

    def _ask(self, worker: int, report: Report) -> None:
        now = self.now
        answer = self.store.exchange(report)
        self.at(now + self.chance.uniform(0.001, 0.01), "answer", worker, (answer, now))

    def _answer(self, worker: int, extra: object) -> None:
        assert isinstance(extra, tuple)
        self.accounts[worker].update(*extra)
