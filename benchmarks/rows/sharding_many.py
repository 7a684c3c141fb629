"""Many small shards: ours beside a chord, `chunks` and dask.distributed.

From the call until the answer stands in the result backend: 10,000 shards of two items
that need nothing, and 1,000 of a hundred; two workers of one process. What the call
itself takes stands beside it.

The backend is asked for that one id, each 10 ms. `get()` on a chord's own result looks
at all of its parts first, and returned a minute after the answer was there, or two; on
what `chunks` returns it is the only way.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from celery import chord
from celery.result import GroupResult

from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.schedules.trial import ROOT
from benchmarks.sharding import canvas, ours
from benchmarks.sharding.field import CANVAS, OURS, Field

ROW = "sharding_many"
SHAPES = ((10_000, 2), (1_000, 100))
WORKERS = 2
GIVEN_UP = 180.0
LOOK = 0.01
WHO = ("celery_sharding", "chord", "chunks", "dask.distributed")


def run(run: Run) -> None:
    """Measure each, in each shape, so many times in turns."""
    for again in range(run.plan.sharded):
        for shards, items in SHAPES:
            for who in WHO:
                run.trial(
                    ROW,
                    f"{who}, {shards:,} shards of {items}, {again + 1}",
                    25 if shards == SHAPES[0][0] else 8,
                    partial(measure, run, who, shards, items),
                    who=who,
                    shards=shards,
                    items=items,
                    nth=again,
                )


def measure(run: Run, who: str, shards: int, items: int) -> Sample:
    """Return the seconds of the call and of the whole."""
    match who:
        case "celery_sharding":
            return by_workers(run, OURS, partial(_ours, shards, items))
        case "chord":
            return by_workers(run, CANVAS, partial(_chord, shards, items))
        case "chunks":
            return by_workers(run, CANVAS, partial(_chunks, shards, items))
    return _rounded(by_dask("many", str(shards), str(items)))


def by_workers(run: Run, app: str, measure: Callable[[Any], Sample]) -> Sample:
    """Return what is measured with two workers, warm."""
    with Field(run.servers, run.tell) as field:
        field.start(WORKERS, app)
        build = ours.build if app == OURS else canvas.build
        here = build(field.given())
        before = field.cpu()
        told = measure(here)
        cpu = {who: spent - before[who] for who, spent in field.cpu().items()}
        here.close()
    return _rounded({**told, "cpu_s": _rounded(cpu)})


def by_dask(*words: str) -> Sample:
    """Return what dask's program measured."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.sharding.dask", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=GIVEN_UP * 3,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    told: Sample = json.loads(done.stdout.splitlines()[-1])
    return told


def _ours(shards: int, items: int, app: Any) -> Sample:
    task = app.tasks[f"ours.nothing{items}"]
    task.delay([*range(items)]).get(timeout=GIVEN_UP)
    return _timed(app, lambda: task.delay([*range(shards * items)]))


def _chord(shards: int, items: int, app: Any) -> Sample:
    nothing, counted = app.tasks["canvas.nothing"], app.tasks["canvas.counted"]
    chord([nothing.s([0])] * 2, app=app)(counted.s()).get(timeout=GIVEN_UP)
    header = [nothing.s([nth] * items) for nth in range(shards)]
    return _timed(app, lambda: chord(header, app=app)(counted.s()))


def _chunks(shards: int, items: int, app: Any) -> Sample:
    pair = app.tasks["canvas.pair"]
    pair.chunks([(0,)] * 2, 1).apply_async().get(timeout=GIVEN_UP)
    given = [(nth,) for nth in range(shards * items)]
    return _timed(app, lambda: pair.chunks(given, items).apply_async())


def _timed(app: Any, submit: Callable[[], Any]) -> Sample:
    began = time.perf_counter()
    result = submit()
    submitted = time.perf_counter()
    if isinstance(result, GroupResult):
        result.get(timeout=GIVEN_UP)
    else:
        alone = app.AsyncResult(result.id)
        while not alone.ready():
            if time.perf_counter() - began > GIVEN_UP:
                message = f"not done after {GIVEN_UP:g} s"
                raise TimeoutError(message)
            time.sleep(LOOK)
        alone.get(timeout=GIVEN_UP)  # raises what it failed with
    ended = time.perf_counter()
    return {"submit_s": submitted - began, "total_s": ended - began}


def _rounded(sample: Sample) -> Sample:
    return {
        key: round(value, 3) if isinstance(value, float) else value
        for key, value in sample.items()
    }
