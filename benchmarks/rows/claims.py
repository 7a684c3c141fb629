"""Claims each second, of one replica and of several that want the same entries.

See benchmarks/schedules/claimer.py: claims alone, as fast as they go, nothing
published. A slot that two replicas claimed would be found here: all (entry, instant)
are compared.
"""

from __future__ import annotations

import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.peers.environment import entry
from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.schedules.arrivals import spread
from benchmarks.schedules.trial import ROOT, Trial
from celery_pecker.kernel.clock import new_id
from celery_pecker.kernel.database import Database
from celery_pecker.schedules.engine.repository import Repository
from example_project.processes import ProcessContainer
from tests.told import telling

ROW = "claims"
ENTRIES = 1_000
REPLICAS = (1, 2, 4)
BATCHES = (1, 1_000)
STARTS_WITHIN = 2.5


def run(run: Run) -> None:
    """Measure single claims, and those of a thousand at once."""
    for batch in BATCHES:
        for replicas in REPLICAS:
            run.trial(
                ROW,
                f"{replicas} replicas, {batch:,} a claim",
                run.plan.claims + STARTS_WITHIN,
                partial(measure, run, replicas, batch),
                replicas=replicas,
                batch=batch,
            )


def measure(run: Run, replicas: int, batch: int) -> Sample:
    """Return what so many replicas claim each second."""
    seconds, dsn = run.plan.claims, run.servers.dsn
    with (
        tempfile.TemporaryDirectory(prefix="pecker-bench-") as folder,
        Trial(run.servers) as trial,
    ):
        database = Database(dsn, schema=trial.name, timeout=20.0)
        Repository(database, new_id()).enroll([entry(n) for n in range(ENTRIES)])
        database.close()
        begin = time.time() + STARTS_WITHIN
        words = [*(dsn, trial.name, str(ENTRIES), str(batch)), str(begin), str(seconds)]
        files = [Path(folder) / f"{number}.npz" for number in range(replicas)]
        claimers = [
            ProcessContainer(
                [sys.executable, "-m", "benchmarks.schedules.claimer"],
                env=telling(*words, str(path)),
                name="claimer",
                cwd=ROOT,
            )
            for path in files
        ]
        try:
            for claimer in claimers:
                claimer.start()
            trial.wait_until(begin + seconds, run.tell)
            for claimer in claimers:
                if claimer.wait(20.0):
                    raise RuntimeError(claimer.life_log()[-1000:])
        finally:
            for claimer in claimers:
                claimer.remove()
        taken = [dict(np.load(path)) for path in files]
    slots = np.concatenate([_slots(one) for one in taken])
    calls = sum(len(one["claim_s"]) for one in taken)
    return {
        "seconds": seconds,
        "slots_per_second": round(len(slots) / seconds),
        "claims_per_second": round(calls / seconds),
        "doubled": len(slots) - len(np.unique(slots)),
        "claim_ms": spread(
            np.concatenate([one["claim_s"] for one in taken]), scale=1e3
        ),
        "shares": [round(len(one["nth"]) / max(len(slots), 1), 3) for one in taken],
    }


def _slots(one: dict[str, np.ndarray]) -> np.ndarray:
    pairs = np.rec.fromarrays([one["nth"], one["due_us"]])
    return np.asarray(pairs)
