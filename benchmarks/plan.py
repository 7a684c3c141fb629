"""How long and how often: three profiles of the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.subjects import EVERYBODY, RIVALS, Subject

FAST, SLOW, WORKER = Subject.FAST, Subject.SLOW, Subject.WORKER
BEAT, REDBEAT = Subject.BEAT, Subject.REDBEAT
CALM = 7.0
"""Seconds that a trial takes besides its window: start, warm-up, stragglers, end."""
LOADING = {
    Subject.REDBEAT: (0.5, 1.2),
    Subject.DJANGO: (3.0, 1.2),
    Subject.SQLALCHEMY: (4.0, 2.5),
}
"""Seconds that it takes more for a peer, and for each thousand of its entries."""
SYNC = 10.0
"""Seconds in which sqlalchemy-celery-beat writes a thousand entries at its end, at
most: then it is killed."""


def overhead(subject: Subject, entries: int = 1) -> float:
    """Return the seconds that a trial takes besides its window."""
    once, thousand = LOADING.get(subject, (0.0, 0.0))
    ending = min(entries / 100, SYNC) if subject is Subject.SQLALCHEMY else 0.0
    return CALM + once + thousand * entries / 1000 + ending


@dataclass(frozen=True, slots=True, kw_only=True)
class Stint:
    """So many trials of one subject under one load."""

    subject: Subject
    entries: int
    seconds: int
    runs: int = 1
    broker: str = "redis"

    @property
    def lasts(self) -> float:
        """About how long one trial takes."""
        return self.seconds + overhead(self.subject, self.entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a profile measures; durations in seconds."""

    name: str
    pace: tuple[Stint, ...]
    precision: int
    kills: int
    """Of the winner of three replicas of ours."""
    lock_kills: int
    """Of the holder of RedBeat's lock; each takes as long as the lock lives."""
    restarts: int
    """Of each scheduler that there can be only one of."""
    doubles: int
    asked: int
    claims: int
    overruns: int
    """Runs of each kind of wait, in each pool."""
    calls: int
    """Of each client, with a deadline and without."""
    requests: int
    """Of each page of Flower."""
    statements: int
    snapshot: tuple[int, int, int]
    """Before, while and after the snapshot is held; 0: not at all."""
    anatomy: int
    """0: not at all."""
    loop: int
    """Of an endless backlog, for each fleet with each estimator."""
    pairs: int
    """Of batches, with the gate and without."""
    batch: int
    """Tasks."""
    openings: int
    """Of a shut gate, and outages of the Redis of the traffic."""
    limited: int
    """For which Celery's own rate limit is watched."""
    questions: int
    """Of each gate."""
    steps: int
    """In traffic."""
    sharded: int
    """How often jobs of many small shards are run, and workers killed."""
    submits: int
    """Calls that submit a job, of each kind."""
    items: int
    """Of a large job."""
    queued: int
    """Shards of a job that is paused and cancelled."""
    stuck: int
    """For which a chord that lost a worker is waited for."""
    compared: tuple[Subject, ...] = EVERYBODY
    """Who takes part in the rows that have no loads of their own."""

    def interleaved(self) -> list[tuple[Stint, int]]:
        """Return the trials of the pace, first runs first: a busy minute hits all."""
        most = max(stint.runs for stint in self.pace)
        return [
            (stint, run)
            for run in range(most)
            for stint in self.pace
            if run < stint.runs
        ]

    def seconds(self) -> dict[str, float]:
        """Return about how long each row takes."""
        singles = [one for one in self.compared if one not in {FAST, REDBEAT}]
        return {
            "consumer": 8,
            "pace": sum(one.lasts for one, _ in self.interleaved()),
            "precision": self._each(self.precision),
            "failover": self.kills * 3.4
            + CALM
            + len(singles) * (self.restarts * 5.0 + 4.0)
            + sum(overhead(one) for one in singles)
            + (self.lock_kills * 8.0 + overhead(REDBEAT) + 3.0)
            * (REDBEAT in self.compared),
            "doubles": self._each(self.doubles + 6.0),
            "asked": self._each(self.asked),
            "claims": 6 * (self.claims + 2.0),
            "deadline": 30.0 + self.overruns * 6.6,
            "deadline_cost": 4 + self.calls * 4e-3,
            "flower": 12 + self.requests * 0.2,
            "statements": 2 * (self.statements + CALM),
            "snapshot": sum(self.snapshot) + CALM * bool(self.snapshot[1]),
            "throttle_loop": 12 + 6 * (self.loop + 19.0),
            "throttle_hook": 2 * (14 + self.pairs * self.batch / 350),
            "throttle_hold": 40
            + self.limited
            + self.openings * 32
            + self.pairs * self.batch / 350,
            "throttle_gate": self.questions * 1.2e-3,
            "throttle_meter": 6 + self.calls * 7e-3,
            "throttle_step": self.steps * 5.0 / 3,
            "sharding_many": self.sharded * 132,
            "sharding_submit": 9 + self.submits * 0.3,
            "sharding_items": 3 * (20 + self.items * 4e-5),
            "sharding_kill": self.sharded * 140 + self.stuck + 10,
            "sharding_poison": 20 + self.items * 9e-5,
            "sharding_post": 30 + self.items * 6e-5,
            "sharding_control": 45 + self.queued * 2e-4,
            "sharding_flower": 12 + self.requests * 0.2,
            "anatomy": 2 * (self.anatomy + CALM) * bool(self.anatomy),
        }

    def _each(self, seconds: float) -> float:
        return sum(seconds + overhead(one) for one in self.compared)


def _all(
    entries: int, seconds: int, *, among: Sequence[Subject] = RIVALS, runs: int = 1
) -> tuple[Stint, ...]:
    return tuple(
        Stint(subject=one, entries=entries, seconds=seconds, runs=runs) for one in among
    )


QUICK = Plan(
    name="quick",
    pace=(
        *_all(1_000, 4, among=(FAST, BEAT, REDBEAT, Subject.DJANGO, WORKER)),
        *_all(5_000, 4, among=(FAST,)),
    ),
    precision=6,
    kills=3,
    lock_kills=1,
    restarts=1,
    doubles=2,
    asked=4,
    claims=1,
    overruns=2,
    calls=600,
    requests=20,
    statements=4,
    snapshot=(0, 0, 0),
    anatomy=0,
    loop=6,
    pairs=3,
    batch=600,
    openings=1,
    limited=8,
    questions=2_000,
    steps=6,
    sharded=1,
    submits=10,
    items=100_000,
    queued=10_000,
    stuck=20,
    compared=(FAST, BEAT, REDBEAT),
)

MEDIUM = Plan(
    name="medium",
    pace=(
        Stint(subject=FAST, entries=1_000, seconds=45, runs=2),
        *_all(1_000, 20),
        *_all(1_000, 15, among=(SLOW, WORKER)),
        Stint(subject=FAST, entries=5_000, seconds=30),
        *_all(5_000, 12),
        *_all(5_000, 10, among=(SLOW, WORKER)),
        *_all(100, 8, among=EVERYBODY),
        *_all(1, 8, among=EVERYBODY),
        Stint(subject=FAST, entries=1_000, seconds=15, broker="rabbitmq"),
        Stint(subject=BEAT, entries=1_000, seconds=15, broker="rabbitmq"),
    ),
    precision=30,
    kills=8,
    lock_kills=3,
    restarts=2,
    doubles=5,
    asked=5,
    claims=3,
    overruns=12,
    calls=4_000,
    requests=100,
    statements=10,
    snapshot=(10, 45, 15),
    anatomy=8,
    loop=20,
    pairs=20,
    batch=2_000,
    openings=3,
    limited=20,
    questions=10_000,
    steps=30,
    sharded=1,
    submits=30,
    items=1_000_000,
    queued=100_000,
    stuck=40,
)

FULL = Plan(
    name="full",
    pace=(
        *(
            stint
            for entries in (1_000, 5_000, 100, 1)
            for stint in (
                Stint(subject=FAST, entries=entries, seconds=120, runs=3),
                *_all(entries, 60, runs=2),
                *_all(entries, 60, among=(SLOW, WORKER)),
            )
        ),
        Stint(subject=FAST, entries=1_000, seconds=120, broker="rabbitmq"),
        Stint(subject=SLOW, entries=1_000, seconds=60, broker="rabbitmq"),
        Stint(subject=BEAT, entries=1_000, seconds=60, broker="rabbitmq"),
    ),
    precision=300,
    kills=20,
    lock_kills=8,
    restarts=5,
    doubles=20,
    asked=30,
    claims=10,
    overruns=100,
    calls=20_000,
    requests=500,
    statements=60,
    snapshot=(30, 300, 90),
    anatomy=30,
    loop=60,
    pairs=40,
    batch=3_000,
    openings=10,
    limited=40,
    questions=50_000,
    steps=200,
    sharded=5,
    submits=100,
    items=1_000_000,
    queued=100_000,
    stuck=120,
)

PLANS = {plan.name: plan for plan in (QUICK, MEDIUM, FULL)}
