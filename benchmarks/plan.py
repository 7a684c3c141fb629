"""How long and how often: three profiles of the same rows."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.trial import Subject

FAST, SLOW, BEAT = Subject.FAST, Subject.SLOW, Subject.BEAT
OVERHEAD = 7.0
"""Seconds that a trial takes besides its window: start, warm-up, stragglers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stint:
    """So many trials of one subject under one load."""

    subject: Subject
    entries: int
    seconds: int
    runs: int = 1
    broker: str = "redis"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a profile measures; durations in seconds."""

    name: str
    pace: tuple[Stint, ...]
    precision: int
    kills: int
    restarts: int
    doubles: int
    statements: int
    snapshot: tuple[int, int, int]
    """Before, while and after the snapshot is held."""
    anatomy: int

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
        return {
            "consumer": 8,
            "pace": sum(one.seconds + OVERHEAD for one, _ in self.interleaved()),
            "precision": 2 * (self.precision + OVERHEAD),
            "failover": self.kills * 3.4
            + self.restarts * 4.0
            + self.doubles
            + 4 * OVERHEAD,
            "statements": 2 * (self.statements + OVERHEAD),
            "snapshot": sum(self.snapshot) + OVERHEAD,
            "anatomy": 2 * (self.anatomy + OVERHEAD),
        }


QUICK = Plan(
    name="quick",
    pace=(
        Stint(subject=FAST, entries=1_000, seconds=15),
        Stint(subject=BEAT, entries=1_000, seconds=15),
        Stint(subject=SLOW, entries=1_000, seconds=15),
        Stint(subject=FAST, entries=5_000, seconds=15),
        Stint(subject=BEAT, entries=5_000, seconds=15),
        Stint(subject=SLOW, entries=5_000, seconds=15),
        Stint(subject=FAST, entries=1, seconds=15),
        Stint(subject=BEAT, entries=1, seconds=15),
        Stint(subject=FAST, entries=100, seconds=15),
        Stint(subject=BEAT, entries=100, seconds=15),
        Stint(subject=FAST, entries=1_000, seconds=15, broker="rabbitmq"),
        Stint(subject=BEAT, entries=1_000, seconds=15, broker="rabbitmq"),
    ),
    precision=15,
    kills=4,
    restarts=2,
    doubles=6,
    statements=12,
    snapshot=(6, 30, 12),
    anatomy=12,
)

MEDIUM = Plan(
    name="medium",
    pace=(
        Stint(subject=FAST, entries=1_000, seconds=60, runs=3),
        Stint(subject=BEAT, entries=1_000, seconds=40),
        Stint(subject=SLOW, entries=1_000, seconds=20),
        Stint(subject=FAST, entries=5_000, seconds=30),
        Stint(subject=BEAT, entries=5_000, seconds=15),
        Stint(subject=SLOW, entries=5_000, seconds=15),
        Stint(subject=FAST, entries=100, seconds=10),
        Stint(subject=BEAT, entries=100, seconds=10),
        Stint(subject=FAST, entries=1_000, seconds=15, broker="rabbitmq"),
        Stint(subject=BEAT, entries=1_000, seconds=15, broker="rabbitmq"),
    ),
    precision=30,
    kills=8,
    restarts=3,
    doubles=8,
    statements=12,
    snapshot=(10, 60, 15),
    anatomy=8,
)

FULL = Plan(
    name="full",
    pace=(
        *(
            stint
            for entries in (1_000, 5_000, 100, 1)
            for stint in (
                Stint(subject=FAST, entries=entries, seconds=120, runs=3),
                Stint(subject=BEAT, entries=entries, seconds=60, runs=3),
                Stint(subject=SLOW, entries=entries, seconds=60),
            )
        ),
        Stint(subject=FAST, entries=1_000, seconds=120, broker="rabbitmq"),
        Stint(subject=SLOW, entries=1_000, seconds=60, broker="rabbitmq"),
        Stint(subject=BEAT, entries=1_000, seconds=60, broker="rabbitmq"),
    ),
    precision=300,
    kills=20,
    restarts=5,
    doubles=20,
    statements=60,
    snapshot=(30, 300, 90),
    anatomy=30,
)

PLANS = {plan.name: plan for plan in (QUICK, MEDIUM, FULL)}
