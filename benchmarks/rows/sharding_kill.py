"""One of two workers is killed in the middle: when do its shards run again?

Seconds from the kill to the first item of a shard that it had begun, on the other
worker. Killed are the worker with all its processes (its lease must lapse), or only
the process that runs the shard (its parent tells). Beside it a chord, acknowledged
late, and dask.distributed.
"""

from __future__ import annotations

import os
import random
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from celery import chord

from benchmarks.results import Sample
from benchmarks.rows.sharding_many import by_dask
from benchmarks.run import Run
from benchmarks.sharding import canvas, ledger, ours, touched
from benchmarks.sharding.field import CANVAS, Field
from celery_pecker.testing import eventually
from example_project.processes import ProcessContainer

ROW = "sharding_kill"
LEASES = (15.0, 5.0)
"""The default one, and a short one."""
SECONDS = 0.02
"""What an item takes."""
ITEMS = 1_000
CHORD = 60
SLOW = 0.2
"""What a task of the chord, and of dask, takes; there are so many."""
SEED = 7


def run(run: Run) -> None:
    """Measure ours with each lease and each victim, then the others."""
    for again in range(run.plan.sharded):
        for lease in LEASES:
            for victim in ("worker", "process"):
                run.trial(
                    ROW,
                    f"{victim} killed, lease {lease:g} s, {again + 1}",
                    lease + 25,
                    partial(measure, run, lease, victim, again),
                    who="celery_sharding",
                    lease=lease,
                    victim=victim,
                    nth=again,
                )
        run.trial(
            ROW,
            f"dask.distributed, {again + 1}",
            20,
            partial(dask, run),
            who="dask.distributed",
            nth=again,
        )
    run.trial(ROW, "chord", run.plan.stuck + 10, partial(stuck, run), who="chord")


def measure(run: Run, lease: float, victim: str, again: int) -> Sample:
    """Return how long the dead one's shards stood, and whether anything was lost."""
    dsn, chance = run.servers.dsn, random.Random(SEED + again)
    with Field(run.servers, run.tell) as field:
        workers = field.start(2, LEASE=lease, SECONDS=SECONDS)
        app: Any = ours.build(field.given(LEASE=lease))
        result = app.tasks["ours.slow25"].delay(ITEMS)
        _await_begun(field, ITEMS // 5)
        field.rest(chance.random())
        dying = chance.choice(workers)
        family = {one.pid for one in psutil.Process(dying.pid).children()}
        held = _held(dsn, field, dying)
        killed = time.time()
        if victim == "worker":
            os.killpg(dying.pid, signal.SIGKILL)
        else:
            runs = touched.read(field.folder)
            newest = max(family & set(runs), key=lambda pid: runs[pid]["began"][-1])
            os.kill(newest, signal.SIGKILL)
        value = result.get(timeout=ITEMS * SECONDS + lease + 60)
        ended = time.time()
        begun = touched.read(field.folder)
        app.close()
    every = np.concatenate([*begun.values()])
    after = every[every["began"] > killed]
    gaps = [
        float(after["began"][after["statements"] == shard].min()) - killed
        for shard in held
        if (after["statements"] == shard).any()
    ]
    counts = np.bincount(every["nr"], minlength=ITEMS)
    return {
        "items": ITEMS,
        "held": len(held),
        "again_s": round(max(gaps), 2) if gaps else None,
        "completed": True,
        "lost": int((counts == 0).sum()),
        "repeated": int(counts.sum() - ITEMS),
        "reported": value[1],
        "after_s": round(ended - killed, 2),
    }


def _await_begun(field: Field, items: int) -> None:
    def begun() -> bool:
        runs = touched.read(field.folder)
        return len(runs) > 1 and sum(map(len, runs.values())) > items

    eventually(begun, 60.0, "both workers are in the middle")


def _held(dsn: str, field: Field, dying: ProcessContainer) -> set[int]:
    log = dying.life_log()
    name = log.partition("@bench ready.")[0].rpartition(" ")[2] + "@bench"
    return eventually(
        lambda: ledger.held(dsn, field.name, name), 10.0, f"{name} runs shards"
    )


def stuck(run: Run) -> Sample:
    """Return whether the chord was there after so long."""
    with Field(run.servers, run.tell) as field:
        workers = field.start(2, CANVAS, LATE=1, PREFETCH=1)
        app: Any = canvas.build(field.given(LATE=1))
        slow, counted = app.tasks["canvas.slow"], app.tasks["canvas.counted"]
        header = [slow.s(nth, SLOW) for nth in range(CHORD)]
        result = chord(header, app=app)(counted.s())
        _await_begun(field, CHORD // 4)
        os.killpg(workers[0].pid, signal.SIGKILL)
        killed = time.time()
        came = field.until(result.ready, run.plan.stuck)
        after = time.time() - killed
        app.close()
    return {
        "items": CHORD,
        "completed": came,
        "waited_s": round(after, 1),
        "again_s": None,
    }


def dask(run: Run) -> Sample:
    """Return the same of dask.distributed."""
    with Field(run.servers, run.tell) as field:
        told = by_dask("kill", str(Path(field.folder)), str(CHORD * 2), str(SLOW))
    return {
        key: round(value, 2) if isinstance(value, float) else value
        for key, value in told.items()
    }
