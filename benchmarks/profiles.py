"""How long and how often: three profiles of the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.plan import BEAT, FAST, REDBEAT, SLOW, WORKER, Plan, Stint
from benchmarks.schedules.subjects import EVERYBODY, RIVALS, Subject


def _all(
    entries: int, seconds: int, *, among: Sequence[Subject] = RIVALS, runs: int = 1
) -> tuple[Stint, ...]:
    return tuple(
        Stint(subject=one, entries=entries, seconds=seconds, runs=runs) for one in among
    )


LENGTHS: Mapping[str, tuple[Any, Any, Any]] = {
    "precision": (6, 30, 300),
    "kills": (3, 8, 20),
    "lock_kills": (1, 3, 8),
    "restarts": (1, 2, 5),
    "doubles": (2, 5, 20),
    "asked": (4, 5, 30),
    "claims": (1, 3, 10),
    "overruns": (2, 12, 100),
    "calls": (600, 4_000, 20_000),
    "requests": (20, 100, 500),
    "statements": (4, 10, 60),
    "snapshot": ((0, 0, 0), (10, 45, 15), (30, 300, 90)),
    "anatomy": (0, 8, 30),
    "loop": (6, 20, 60),
    "pairs": (3, 20, 40),
    "batch": (600, 2_000, 3_000),
    "openings": (1, 3, 10),
    "limited": (8, 20, 40),
    "questions": (2_000, 10_000, 50_000),
    "steps": (6, 30, 200),
    "sharded": (1, 1, 5),
    "submits": (10, 30, 100),
    "items": (100_000, 1_000_000, 1_000_000),
    "queued": (10_000, 100_000, 100_000),
    "open": (10_000, 10_000, 10_000),
    "backlog": (200, 1_000, 1_000),
    "recorded": (10_000, 100_000, 100_000),
    "held": (10, 300, 300),
    "groomed": (2, 10, 30),
    "acts": (1, 3, 10),
    "observed": (1_000, 10_000, 10_000),
    "still": (20, 60, 300),
    "frozen": (10, 30, 30),
    "swarms": ((1_000, 10_000), (10_000, 100_000), (10_000, 100_000)),
    "forever": (40, 90, 300),
    "edits": (5, 20, 60),
    "stored": ((100,), (100, 10_000, 100_000), (100, 10_000, 100_000)),
    "quiet": (4, 15, 60),
    "busy": (10, 20, 60),
    "stuck": (20, 40, 120),
}
"""Quick, medium, full: how long or how many, as `Plan` has it."""


def _lengths(profile: int) -> dict[str, Any]:
    return {name: lengths[profile] for name, lengths in LENGTHS.items()}


QUICK = Plan(
    name="quick",
    pace=(
        *_all(1_000, 4, among=(FAST, BEAT, REDBEAT, Subject.DJANGO, WORKER)),
        *_all(5_000, 4, among=(FAST,)),
    ),
    compared=(FAST, BEAT, REDBEAT),
    **_lengths(0),
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
    **_lengths(1),
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
    **_lengths(2),
)

PLANS = {plan.name: plan for plan in (QUICK, MEDIUM, FULL)}
