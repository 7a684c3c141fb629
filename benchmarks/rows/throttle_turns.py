"""Turns of large runs, on real statements that PostgreSQL counts itself.

Each run makes 40 % of what the limit allows in a second. Several workers, one process
each, take an endless backlog of them: without turns they would start in several workers
at once. What counts is the busiest second of PostgreSQL's clock, wherever it begins,
and the part of the limit that is used.
"""

from __future__ import annotations

import time
from functools import partial

from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.schedules.ticks import Watched, busiest_second, rate
from benchmarks.throttle.workers import ThrottledWorkers

ROW = "throttle_turns"
LIMIT = 500.0
"""Statements a second: few enough for PostgreSQL and sixteen workers on two cores."""
PART = 0.4
"""Of the limit, that one run makes."""
LEARNING = 6
"""Runs until their cost counts as learned."""
SETTLING = 5.0
"""Seconds of the backlog before it is measured: the weighted windows are full."""
FLEETS = (4, 16)


def run(run: Run) -> None:
    """Measure each fleet with each estimator."""
    for workers in FLEETS:
        for estimator in ("weighted", "fast"):
            run.trial(
                ROW,
                f"{workers} workers, {estimator}",
                2 * run.plan.loop + SETTLING + 10 + workers,
                partial(measure, run, workers, estimator),
                workers=workers,
                estimator=estimator,
            )


def measure(run: Run, workers: int, estimator: str) -> Sample:
    """Return what a fleet made of an endless backlog of large runs."""
    statements, lasts = int(LIMIT * PART), 2.0 * run.plan.loop
    with (
        Watched(run.servers.dsn) as watched,
        ThrottledWorkers(run.servers, run.tell) as throttled,
    ):
        crew = throttled.crew(workers, LIMIT=LIMIT, ESTIMATOR=estimator, SEQUENCE=1)
        tasks = int((lasts + SETTLING) / PART * 2) + LEARNING
        throttled.feed(crew, "throttled.touch", tasks, statements)
        throttled.until(lambda: crew.done() > LEARNING, 120, "costs are learned")
        throttled.rest(SETTLING)
        since, before, done = time.time(), watched.commits(), crew.done()
        throttled.rest(lasts)
        series, done = watched.series, crew.done() - done
        committed = watched.commits() - before
    at, count = series
    made = float(count[-1] - count[at.searchsorted(since)])
    looks = float((at >= since).sum())
    return {
        "limit": LIMIT,
        "part": PART,
        "runs": done,
        "statements": made,
        "committed": (committed - looks) / made if made else 0.0,
        "peak": busiest_second(series, since) / LIMIT,
        "use": rate(series, since) / LIMIT,
    }
