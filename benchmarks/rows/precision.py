"""One per-second entry: how even are its steps, and does it drift?"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

from benchmarks.plan import Stint
from benchmarks.rows.pace import measure
from benchmarks.run import Run

ROW = "precision"


def run(run: Run) -> None:
    """Measure ours, then the peers."""
    for subject in run.plan.compared:
        stint = Stint(subject=subject, entries=1, seconds=run.plan.precision)
        run.trial(
            ROW,
            f"{subject}, one entry",
            stint.lasts,
            partial(measure, run, stint, series=True),
            **asdict(stint),
            run=0,
        )
