"""What is held: how soon it goes when the gate opens, and whom it bothers meanwhile.

*release*: 1,000 tasks wait for a database whose gate is shut; it opens; when was the
last of them handed to the pool? Beside it Celery's own rate limit, which on an idle
worker hands out what waits by timers of its own.
*isolation*: 10,000 tasks wait for a shut database; tasks of another come in batches, to
this worker and to one that holds nothing, in turns.
*away*: the Redis of the traffic is killed; how long did the worker's loop pause?
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.results import Sample
from benchmarks.rows.throttle_hook import PLENTY, batch, interval
from benchmarks.run import Run
from benchmarks.throttle.probe import HANDED
from benchmarks.throttle.workers import Crew, ThrottledWorkers
from throttle.store.redis import RedisStore

ROW = "throttle_hold"
HELD = 1_000
MANY = 10_000
LEARNING = 200
SHUT = "other"
AWAY = 3.0
"""Seconds for which the Redis of the traffic is away."""


def run(run: Run) -> None:
    """Measure the three."""
    for again in range(run.plan.openings):
        run.trial(
            ROW,
            f"release {again + 1}",
            12,
            partial(release, run),
            what=f"release {again}",
        )
    run.trial(
        ROW, "Celery's rate limit", 45, partial(rate_limit, run), what="rate limit"
    )
    run.trial(ROW, "isolation", 60, partial(isolation, run), what="isolation")
    for again in range(run.plan.openings):
        run.trial(
            ROW, f"away {again + 1}", 20, partial(away, run), what=f"away {again}"
        )


def release(run: Run) -> Sample:
    """Return how long after the opening each task was handed out."""
    with ThrottledWorkers(run.servers, run.tell) as throttled:
        crew = throttled.crew(1, LIMIT=PLENTY, PROBE=1)
        # Tasks of a new kind come in a few at a time, until it is known what they cost
        batch(throttled, crew, LEARNING, "throttled.shut")
        crew.forget()
        store = _shut(throttled)
        throttled.rest(0.5)
        throttled.feed(crew, "throttled.shut", HELD)
        throttled.until(
            lambda: not throttled.broker.llen(crew.queue), 30, "all are fetched"
        )
        throttled.rest(1.0)
        before = len(_handed(crew))
        opened = time.time()
        store.lower(SHUT, 1.0, "opened by the benchmark", 60)
        throttled.until(lambda: crew.done() >= HELD, 60, "all ran")
        handed = _handed(crew)[before:] - opened
        store.close()
    return {
        "held": HELD,
        "first_ms": round(float(handed[0]) * 1e3, 1),
        "last_ms": round(float(handed[HELD - 1]) * 1e3, 1),
        "took_ms": round(float(handed[HELD - 1] - handed[0]) * 1e3, 1),
    }


def rate_limit(run: Run) -> Sample:
    """Return at what rate Celery's own limiter hands out what may go at once."""
    with ThrottledWorkers(run.servers, run.tell) as throttled:
        crew = throttled.crew(1, RATE="1000/s", PROBE=1, PREFETCH=2000)
        throttled.feed(crew, "throttled.limited", HELD)
        began = time.time()
        throttled.rest(run.plan.limited)
        handed = _handed(crew)
    took = float(handed[-1] - began)
    handed = handed[handed < began + run.plan.limited]
    return {
        "handed": len(handed),
        "took_ms": round(took * 1e3, 1),
        "rate": round(len(handed) / took, 1),
    }


def isolation(run: Run) -> Sample:
    """Return what tasks of another database lose."""
    with ThrottledWorkers(run.servers, run.tell) as throttled:
        store = _shut(throttled)
        alone = throttled.crew(1, LIMIT=PLENTY)
        beside = throttled.crew(1, LIMIT=PLENTY, PREFETCH=200)
        throttled.feed(beside, "throttled.shut", MANY)
        throttled.until(
            lambda: not throttled.broker.llen(beside.queue), 60, "all are held"
        )
        for crew in (alone, beside):
            batch(throttled, crew, 300)
        ratios = []
        for _ in range(run.plan.pairs):
            plain, *_ = batch(throttled, alone, run.plan.batch)
            took, *_ = batch(throttled, beside, run.plan.batch)
            ratios.append(plain / took)
        middle, low, high = interval(np.array(ratios))
        store.close()
    return {
        "held": MANY,
        "ratio": round(middle, 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "ratios": [round(one, 4) for one in ratios],
    }


def away(run: Run) -> Sample:
    """Return the loop's longest pauses before, while and after Redis was away."""
    with ThrottledWorkers(run.servers, run.tell) as throttled:
        crew = throttled.crew(1, LIMIT=200, PROBE=1)
        throttled.feed(crew, "throttled.touch", 4_000, 2)
        throttled.rest(AWAY)
        killed = time.time()
        throttled.traffic.kill()
        throttled.rest(AWAY)
        throttled.traffic.restart()
        back = time.time()
        throttled.rest(AWAY)
        ended = time.time()
        gaps = np.frombuffer((crew.folder / "gaps").read_bytes(), dtype="<f8").reshape(
            -1, 2
        )
        done = crew.runs()["ended"]
        rates = {
            name: int(((done >= since) & (done < until)).sum() / (until - since))
            for name, since, until in (
                ("before", killed - 2, killed),
                ("away", killed + 0.5, back),
                ("after", back + 2, ended),
            )
        }
    longest = {
        name: round(_longest(gaps, since, until) * 1e3, 2)
        for name, since, until in (
            ("before", killed - 2, killed),
            ("away", killed, back),
            ("after", back, ended),
        )
    }
    return {"pause_ms": longest, "runs_per_second": rates}


def _shut(throttled: ThrottledWorkers) -> RedisStore:
    """Shut one database by the second signal's way; return the store."""
    store = RedisStore(throttled.traffic.url, timeout=2.0)
    store.check()
    store.lower(SHUT, 0.0, "shut by the benchmark", 600)
    return store


def _handed(crew: Crew) -> NDArray[np.float64]:
    return _read(crew.folder / "handed", HANDED.size)


def _read(path: Path, size: int) -> NDArray[np.float64]:
    data = path.read_bytes()
    return np.frombuffer(data[: len(data) // size * size], dtype="<f8")


def _longest(gaps: NDArray[np.float64], since: float, until: float) -> float:
    inside = gaps[(gaps[:, 0] >= since) & (gaps[:, 0] < until), 1]
    return float(inside.max()) if len(inside) else 0.0
