"""Where a wake-up of 5,000 entries spends its time: benchmarks/schedules/anatomy.py."""

from __future__ import annotations

import json
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.schedules import cost
from benchmarks.schedules.subjects import Subject
from benchmarks.schedules.trial import Trial

ROW = "anatomy"
ENTRIES = 5_000


def run(run: Run) -> None:
    """Time the fast lane, then the slow one."""
    for subject in (Subject.FAST, Subject.SLOW) if run.plan.anatomy else ():
        run.trial(
            ROW,
            f"{subject}, {ENTRIES:,} entries",
            run.plan.anatomy,
            partial(measure, run, subject),
            subject=subject,
        )


def measure(run: Run, subject: Subject) -> Sample:
    """Return what each phase takes, in µs for each slot."""
    with (
        tempfile.TemporaryDirectory(prefix="pecker-bench-") as folder,
        Trial(run.servers, entries=ENTRIES) as trial,
    ):
        path = Path(folder) / "phases.json"
        scheduler = trial.start(subject, ANATOMY=str(path))
        trial.wait_until(time.time() + 5 + run.plan.anatomy, run.tell)
        trial.stop(scheduler)
        taken = json.loads(path.read_text())
        found = cost.wakes(scheduler.life_log(), taken["since"])
    slots = sum(wake.won for wake in found)
    if taken["wakes"] < 2 or not slots:
        msg = f"too few wake-ups: {taken['wakes']}"
        raise RuntimeError(msg)
    own = {name: ns / 1e3 / slots for name, ns in taken["own_ns"].items()}
    return {
        "entries": ENTRIES,
        "wakes": taken["wakes"],
        "slots": slots,
        "us_per_slot": round(sum(own.values()), 2),
        "own_us": {name: round(us, 2) for name, us in own.items()},
        "not_timed": taken["missing"],
    }
