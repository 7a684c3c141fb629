"""How long and how often: three profiles of the same rows."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.plan import BEAT, FAST, REDBEAT, SLOW, WORKER, Plan, Stint
from benchmarks.subjects import EVERYBODY, RIVALS, Subject


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
    open=10_000,
    backlog=200,
    recorded=10_000,
    held=10,
    groomed=2,
    acts=1,
    observed=1_000,
    still=20,
    frozen=10,
    swarms=(1_000, 10_000),
    forever=40,
    edits=5,
    stored=(100,),
    quiet=4,
    busy=10,
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
    open=10_000,
    backlog=1_000,
    recorded=100_000,
    held=300,
    groomed=10,
    acts=3,
    observed=10_000,
    still=60,
    frozen=30,
    swarms=(10_000, 100_000),
    forever=90,
    edits=20,
    stored=(100, 10_000, 100_000),
    quiet=15,
    busy=20,
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
    open=10_000,
    backlog=1_000,
    recorded=100_000,
    held=300,
    groomed=30,
    acts=10,
    observed=10_000,
    still=300,
    frozen=30,
    swarms=(10_000, 100_000),
    forever=300,
    edits=60,
    stored=(100, 10_000, 100_000),
    quiet=60,
    busy=60,
    stuck=120,
)

PLANS = {plan.name: plan for plan in (QUICK, MEDIUM, FULL)}
