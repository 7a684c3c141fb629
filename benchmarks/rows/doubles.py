"""Two copies of each scheduler, nobody killed: how often is each slot sent?"""

from __future__ import annotations

import time
from functools import partial

from benchmarks.plan import overhead
from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.schedules.subjects import Subject
from benchmarks.schedules.trial import Trial

ROW = "doubles"
ENTRIES = 10
SETTLE = 6.0
"""Seconds in which the second copy loads, and sends its first: a period later."""


def run(run: Run) -> None:
    """Measure each of those that are compared."""
    for subject in run.plan.compared:
        run.trial(
            ROW,
            f"two copies of {subject}",
            run.plan.doubles + SETTLE + overhead(subject),
            partial(measure, run, subject),
            subject=subject,
        )


def measure(run: Run, subject: Subject) -> Sample:
    """Return how many messages there were for how many slots."""
    with Trial(run.servers, entries=ENTRIES) as trial:
        first = trial.start(subject)
        second = trial.launch(subject)
        trial.wait_until(time.time() + SETTLE, run.tell)
        # half a second off what may be a grid: no slot is cut in two
        since = time.time()
        until = since + run.plan.doubles
        trial.wait_until(until + 0.5, run.tell)
        trial.stop(first, second)
        arrivals = trial.count()
    sent = len(arrivals.between(since, until).arrived)
    due = run.plan.doubles * ENTRIES
    return {"due": due, "sent": sent, "sent_per_slot": round(sent / due, 3)}
