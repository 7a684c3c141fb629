"""What the call takes that submits a job: by reference, by PreProcess, with its items.

No worker runs: what is measured is the caller's alone. The first call of a process
also connects and declares, and stands apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import celery_sharding
from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.schedules.arrivals import spread
from benchmarks.sharding import ours
from benchmarks.sharding.field import Field

ROW = "sharding_submit"
ITEMS = 1_000_000
INLINE = 100_000
WAYS = ("Source", "PreProcess", "inline list")


def run(run: Run) -> None:
    """Measure each way."""
    for way in WAYS:
        run.trial(
            ROW, way, 3 + run.plan.submits * 0.1, partial(measure, run, way), way=way
        )


def measure(run: Run, way: str) -> Sample:
    """Return the times of the first call, and of the others, in ms."""
    with Field(run.servers, run.tell) as field:
        app: Any = ours.build(field.given())
        submitted, planned = app.tasks["ours.submitted"], app.tasks["ours.planned"]
        ways: dict[str, tuple[int, Callable[[], Any]]] = {
            "Source": (
                ITEMS,
                lambda: submitted.delay(celery_sharding.KeyRange(1, ITEMS)),
            ),
            "PreProcess": (ITEMS, lambda: planned.delay(ITEMS)),
            "inline list": (INLINE, lambda: submitted.delay([*range(INLINE)])),
        }
        items, submit = ways[way]
        took = []
        for _ in range(run.plan.submits + 1):
            began = time.perf_counter()
            submit()
            took.append(time.perf_counter() - began)
            run.tell()
        app.close()
    return {
        "items": items,
        "calls": run.plan.submits,
        "first_ms": round(took[0] * 1e3, 1),
        "ms": spread(took[1:], scale=1e3, digits=1),
    }
