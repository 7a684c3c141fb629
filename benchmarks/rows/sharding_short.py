"""Short jobs of ten items: one at a time beside a chord of ten, and very many at once.

*one at a time*: from the call until `get()` returns, ours and the chord in turns, two
workers of one process for each. *a backlog*: the calls wait in the queue before the
first worker starts; a job counts from then until it has ended in the ledger. Where jobs
end one after the other half of them have ended in half of the time.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
from celery import chord

from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.schedules.arrivals import spread
from benchmarks.sharding import canvas, ledger, ours
from benchmarks.sharding.field import CANVAS, Field

ROW = "sharding_short"
ITEMS = 10
WARM = 5
GIVEN_UP = 60.0
ENDED = """
select extract(epoch from ended_at)::float8 from {schema}.pecker_jobs
where stage = 'ended' order by 1
"""


def run(run: Run) -> None:
    """Measure both ways."""
    run.trial(
        ROW,
        "one at a time",
        run.plan.submits * 0.2 + 8,
        partial(single, run),
        way="one",
    )
    run.trial(
        ROW, "a backlog", run.plan.backlog * 0.05, partial(backlog, run), way="many"
    )


def single(run: Run) -> Sample:
    """Return the milliseconds of a job and of a chord of as many items."""
    with Field(run.servers, run.tell) as mine, Field(run.servers, run.tell) as theirs:
        mine.start(2)
        theirs.start(2, CANVAS)
        app: Any = ours.build(mine.given())
        plain: Any = canvas.build(theirs.given())
        task = app.tasks["ours.nothing100"]
        nothing, body = plain.tasks["canvas.nothing"], plain.tasks["canvas.counted"]
        ways: dict[str, Any] = {
            "celery_sharding": lambda: task.delay([*range(ITEMS)]),
            "chord": lambda: chord([nothing.s([1])] * ITEMS, app=plain)(body.s()),
        }
        took: dict[str, list[float]] = {who: [] for who in ways}
        for _ in range(run.plan.submits + WARM):
            for who, call in ways.items():
                began = time.perf_counter()
                call().get(timeout=GIVEN_UP)
                took[who].append(time.perf_counter() - began)
            run.tell()
        app.close()
        plain.close()
    return {
        "items": ITEMS,
        "calls": run.plan.submits,
        "ms": {
            who: spread(each[WARM:], scale=1e3, digits=1) for who, each in took.items()
        },
    }


def backlog(run: Run) -> Sample:
    """Return when jobs ended that were all called before the first worker started."""
    jobs = run.plan.backlog
    with Field(run.servers, run.tell) as field:
        app: Any = ours.build(field.given())
        task = app.tasks["ours.nothing100"]
        for _ in range(jobs):
            task.delay([*range(ITEMS)])
            run.tell()
        began = time.time()
        field.start(2)
        field.until(lambda: len(_ended(run, field)) == jobs, jobs * 0.2 + GIVEN_UP)
        ended = np.array(_ended(run, field)) - began
        app.close()
    return {
        "jobs": jobs,
        "ended": len(ended),
        "first_s": round(float(ended.min()), 2),
        "median_s": round(float(np.median(ended)), 2),
        "last_s": round(float(ended.max()), 2),
    }


def _ended(run: Run, field: Field) -> list[float]:
    return [row[0] for row in ledger.ask(run.servers.dsn, field.name, ENDED)]
