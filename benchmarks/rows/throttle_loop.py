"""An endless backlog against a limit: how near to it, and how far above.

Workers of ours, one process each, take tasks that never end; each makes 20 statements.
The limit is a part of what four workers without a gate make, so that some of the
processor stays idle: half of it, and a quarter for sixteen workers, which need more for
themselves on two cores. What counts is the truth of the tasks themselves: statements of
each whole second of Redis' clock, and of the busiest second wherever it begins.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import psutil

from benchmarks.record import busiest, each_second
from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.throttle.workers import Crew, ThrottledWorkers

ROW = "throttle_loop"
STATEMENTS = 20
LEARNING = 200
"""Runs until costs count as learned."""
SETTLING = 4.0
"""Seconds of the backlog before it is measured: the weighted windows are full."""
FREE = 4.0
"""Seconds for which it is measured what there is without a gate."""
PARTS = {1: 0.5, 4: 0.5, 16: 0.25}
"""Of the rate without a gate, by the number of workers."""


def run(run: Run) -> None:
    """Measure what the machine can do, then each fleet with each estimator."""
    free: list[float] = []
    run.trial(ROW, "no gate", FREE + 8, partial(_free, run, free), what="no gate")
    if not free:
        kept = [one for one in run.results.samples(ROW) if one["what"] == "no gate"]
        if not kept:
            return
        free.append(kept[-1]["rate"])
    for workers, part in PARTS.items():
        limit = round(free[0] * part, -1)
        for estimator in ("weighted", "fast"):
            run.trial(
                ROW,
                f"{workers} workers, {estimator}",
                run.plan.loop + SETTLING + 8 + workers,
                partial(measure, run, limit, workers, estimator),
                what="gate",
                workers=workers,
                estimator=estimator,
            )


def _free(run: Run, found: list[float]) -> Sample:
    with ThrottledWorkers(run.servers, run.tell) as throttled:
        crew = throttled.crew(4)
        throttled.feed(crew, "throttled.touch", 20_000, STATEMENTS)
        throttled.until(lambda: crew.done() > LEARNING, 30, "tasks run")
        crew.forget()
        idle = _idle(throttled, FREE)
        runs = crew.runs()
        rate = float(np.median(each_second(runs, runs["ended"][0], runs["ended"][-1])))
    found.append(rate)
    return {"rate": rate, "idle": idle}


def measure(run: Run, limit: float, workers: int, estimator: str) -> Sample:
    """Return what a fleet made of an endless backlog."""
    with ThrottledWorkers(run.servers, run.tell) as throttled:
        crew = throttled.crew(workers, LIMIT=limit, ESTIMATOR=estimator)
        lasts = run.plan.loop
        tasks = int((lasts + SETTLING + 6) * limit / STATEMENTS * 1.5) + LEARNING
        throttled.feed(crew, "throttled.touch", tasks, STATEMENTS)
        throttled.until(lambda: crew.done() > LEARNING, 60, "costs are learned")
        throttled.rest(SETTLING)
        idle = _idle(throttled, lasts)
        return {"limit": limit, "idle": idle, **_said(crew, limit, lasts)}


def _idle(throttled: ThrottledWorkers, seconds: float) -> float:
    """Return the part of the processor that nobody used meanwhile."""
    psutil.cpu_times_percent(None)
    throttled.rest(seconds)
    return round(float(psutil.cpu_times_percent(None).idle) / 100, 3)


def _said(crew: Crew, limit: float, lasts: float) -> Sample:
    runs = crew.runs()
    until = float(runs["ended"][-1])
    since = until - lasts
    seconds = each_second(runs, since, until)
    return {
        "peak": float(seconds.max()) / limit,
        "busiest": busiest(runs, since, until) / limit,
        "use": float(seconds.mean()) / limit,
        "least": float(seconds.min()) / limit,
        "seconds": [round(one / limit, 4) for one in seconds],
    }
