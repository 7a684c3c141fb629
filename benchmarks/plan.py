"""How long and how often: what a profile says of each row."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.schedules.subjects import EDITED, EVERYBODY, Subject

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
    open: int
    """Jobs that are open while a ticket is lost."""
    backlog: int
    """Short jobs that wait in the queue when the first worker starts."""
    recorded: int
    """Messages of an outbox; five times as many wait, ten times as many in all."""
    held: int
    """For which a snapshot is held while messages go through an outbox."""
    groomed: int
    """For which reports are applied, by each way on each line."""
    acts: int
    """In which a media server freezes."""
    observed: int
    """Observers, on four hosts."""
    still: int
    """For which they are watched while nothing happens."""
    frozen: int
    """For which one of their hosts is frozen."""
    swarms: tuple[int, ...]
    """Observers, on four hosts, whose statements are timed."""
    forever: int
    """For which a task that never ends is watched, on each broker."""
    edits: int
    """Entries that are added to a running scheduler, and removed, one by one."""
    stored: tuple[int, ...]
    """Entries with which a scheduler starts."""
    quiet: int
    """For which a scheduler is watched while none of them is due."""
    busy: int
    """For which many are due, while others edit them."""
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
            "throttle_turns": 4 * (2 * self.loop + 25.0),
            "throttle_hook": 30 + 7 * self.pairs * (5 + self.batch / 500),
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
            "sharding_short": 16 + self.submits * 0.2 + self.backlog * 0.06,
            "sharding_open": 30 + self.open * 2e-3 + self.requests * 0.1,
            "sharding_flower": 12 + self.requests * 0.2,
            "outbox_relay": 2 * (8 + self.recorded / 4_000),
            "outbox_latency": 6 + self.submits * 1.5,
            "outbox_call": 6 + self.recorded / 5_000,
            "outbox_commits": 6 + self.pairs * 8.0,
            "outbox_deferred": 10 + self.recorded / 4_000,
            "outbox_hundred": 10 + self.recorded / 400,
            "outbox_peers": 5 * (12 + self.recorded / 8_000 + self.submits * 0.4),
            "outbox_million": 20
            + self.recorded / 400
            + max(self.recorded / 400, self.held),
            "groomer": 9 * (self.groomed + 3.0)
            + 5
            + self.recorded / 800
            + self.acts * 45.0,
            "observers_quiet": 20 + self.observed / 500 + self.still,
            "observers_kill": 2 * (50 + self.observed / 400),
            "observers_join": 45 + self.observed / 500,
            "observers_drain": 5 * (40 + self.observed / 400),
            "observers_freeze": 60.0 + self.frozen,
            "observers_outage": 2 * (60 + self.observed / 400),
            "observers_blackout": 50 + self.observed / 300,
            "observers_100k": sum(60 + many / 1_000 for many in self.swarms)
            + len(self.swarms) * self.still,
            "observers_endless": 100 + 2 * self.forever,
            "stored_edit": sum(overhead(one) + self.edits * 4.1 for one in EDITED),
            "stored_start": sum(
                overhead(one, entries) + 5 + self.quiet
                for one in EDITED
                for entries in self.stored
            ),
            "stored_busy": 14
            + self.busy
            + 5 * (overhead(BEAT, 10_000) + 30 + self.busy),
            "anatomy": 2 * (self.anatomy + CALM) * bool(self.anatomy),
        }

    def _each(self, seconds: float) -> float:
        return sum(seconds + overhead(one) for one in self.compared)
