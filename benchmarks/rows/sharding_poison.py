"""One item in a million kills its process: what is reported, and what it costs.

Each item is counted when it is begun, outside of the process that dies. Beside it
dask.distributed, with tasks of 500 items: it gives such a task up whole.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

from benchmarks.results import Sample
from benchmarks.rows.sharding_many import by_dask
from benchmarks.run import Run
from benchmarks.sharding import ours
from benchmarks.sharding.field import Field
from benchmarks.sharding.touched import Counts

ROW = "sharding_poison"
EACH = 500
GIVEN_UP = 600.0
SHOWN = 10


def run(run: Run) -> None:
    """Measure ours and dask's."""
    run.trial(ROW, "celery_sharding", 90, partial(measure, run), who="celery_sharding")
    run.trial(ROW, "dask.distributed", 20, partial(dask, run), who="dask.distributed")


def measure(run: Run) -> Sample:
    """Return what was reported, how often a process died, what ran twice."""
    items = run.plan.items
    poison = items // 2 + 7
    with Field(run.servers, run.tell) as field:
        counts = Counts(field.folder / "counts", items)
        field.start(2, POISON=poison, ITEMS=items, LEASE=15)
        app: Any = ours.build(field.given(LEASE=15))
        began = time.perf_counter()
        result = app.tasks["ours.poisoned"].delay(items)
        value = result.get(timeout=GIVEN_UP)
        took = time.perf_counter() - began
        errors = [*result.errors()]
        begun = counts.read().astype(np.int64)
        counts.close()
        app.close()
    return {
        "items": items,
        "reported": len(errors),
        "right": [one.item for one in errors] == [poison],
        "codes": sorted({int(one.code) for one in errors}),
        "errors": [f"{one.item}: {one.type}: {one.message}" for one in errors[:SHOWN]],
        "deaths": int(begun[poison]),
        "never_begun": int((begun == 0).sum()),
        "again": int(begun.sum() - items - (begun[poison] - 1)),
        "seconds": round(took, 1),
        "value": value,
    }


def dask(run: Run) -> Sample:
    """Return what dask says of it."""
    return by_dask("poison", str(run.plan.items), str(EACH))
