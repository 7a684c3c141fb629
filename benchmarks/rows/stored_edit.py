"""From an edit to its effect: entries are added to a running scheduler, and removed.

Each is of every tenth of a second. Its effect is its first message, less the tenth that
its schedule asks for; of a removal it is the last message. In between nothing is due
but one entry of every second, by which a scheduler looks as often as in a calm app.
"""

from __future__ import annotations

import json
import time
from functools import partial

import numpy as np

from benchmarks.peers.editing import LIVES, PERIOD, RESTS
from benchmarks.plan import overhead
from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.schedules.arrivals import Arrivals, spread
from benchmarks.schedules.subjects import EDITED, Subject
from benchmarks.schedules.trial import Trial

ROW = "stored_edit"
ENTRIES = 100
ONE = LIVES + RESTS + 0.6
"""Seconds that one entry takes."""


def run(run: Run) -> None:
    """Measure each whose entries people change."""
    for subject in EDITED:
        lasts = overhead(subject) + run.plan.edits * ONE
        run.trial(
            ROW, str(subject), lasts, partial(measure, run, subject), subject=subject
        )


def measure(run: Run, subject: Subject) -> Sample:
    """Return the seconds from each edit to its effect."""
    edits = run.plan.edits
    with Trial(run.servers, entries=ENTRIES, patient=not subject.ours) as trial:
        file = trial.folder / "edits.json"
        scheduler = trial.launch(subject, EVERY="3600", PULSE="1")
        trial.await_words(trial.consumer, "first message", of=scheduler)
        editor = trial.edit(subject, ADDS=str(edits), FILE=str(file))
        trial.wait_until(time.time() + edits * ONE, run.tell)
        trial.ended(editor, 60.0)
        trial.wait_until(time.time() + 2.0, run.tell)
        trial.stop(scheduler)
        arrivals = trial.count()
        made = json.loads(file.read_text())
    return {"edits": edits, **effects(arrivals, made)}


def effects(arrivals: Arrivals, made: list[tuple[int, float, float]]) -> Sample:
    """Return how soon what was added came, and how long what was removed came still."""
    first: list[float] = []
    last: list[float] = []
    never = 0
    for number, there, gone in made:
        came = arrivals.arrived[arrivals.entries == number]
        if not len(came):
            never += 1
            continue
        first.append(max(float(came.min()) - there - PERIOD, 0.0))
        last.append(max(float(came.max()) - gone, 0.0))
    return {
        "never": never,
        "added_s": spread(np.array(first), digits=3),
        "removed_s": spread(np.array(last), digits=3),
    }
