"""Many stored entries that are due, with edits going on and without.

Delivered/due: of all slots of the window, those whose message came. Of the peers, whose
messages name no slot, the messages that came in the window.
"""

from __future__ import annotations

import json
import math
import time
from contextlib import suppress
from functools import partial

from benchmarks.plan import LOADING, overhead
from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.schedules.arrivals import spread
from benchmarks.schedules.subjects import EDITED, Subject
from benchmarks.schedules.trial import Trial

ROW = "stored_busy"
ENTRIES = 10_000
EVERY = 10
"""Seconds: the period of the entries that are edited meanwhile."""
RATE = 1_000
"""Edits a second that are tried for."""
BATCH = 100
"""Edits that are made together where an API knows such a call: `set_many` of ours."""
WARM = 3.0
STRAGGLERS = 2.0


def run(run: Run) -> None:
    """Measure ours with two replicas and all due each second, then all with edits."""
    seconds = run.plan.busy
    run.trial(
        ROW,
        f"{Subject.STORED}, two replicas, {ENTRIES:,} a second",
        2 * overhead(Subject.STORED) + seconds,
        partial(measure, run, Subject.STORED, every=1, replicas=2),
        subject=Subject.STORED,
        every=1,
        batch=0,
    )
    for subject, batch in ((Subject.STORED, BATCH), *((one, 1) for one in EDITED)):
        load = LOADING.get(subject, (0, 0))[1] * ENTRIES / 1_000
        run.trial(
            ROW,
            f"{subject}, {ENTRIES // EVERY:,} a second, with edits, {batch} in a call",
            overhead(subject) + 2 * EVERY + seconds + load,
            partial(measure, run, subject, every=EVERY, replicas=1, batch=batch),
            subject=subject,
            every=EVERY,
            batch=batch,
        )


def measure(
    run: Run, subject: Subject, *, every: int, replicas: int, batch: int = 0
) -> Sample:
    """Return what was delivered of what was due, and how many edits were made."""
    # whole periods of an entry: each has as many slots in the window
    seconds = math.ceil(run.plan.busy / every) * every
    with Trial(run.servers, entries=ENTRIES, patient=not subject.ours) as trial:
        file = trial.folder / "edits.json"
        given = {"EVERY": str(every)}
        schedulers = [trial.launch(subject, **given) for _ in range(replicas)]
        given_up = () if subject.ours else (AssertionError, RuntimeError)
        with suppress(*given_up):
            trial.await_words(trial.consumer, "first message", of=schedulers[0])
        for scheduler in schedulers if subject.ours else ():
            trial.await_words(scheduler, "pecker: ready")
        # entries of ours are due at one instant, and messages are built at the first
        since = math.ceil(time.time() + WARM + every) + 0.5
        until = since + seconds
        editors = []
        if batch:
            given |= {"SECONDS": str(until - time.time()), "RATE": str(RATE)}
            given["BATCH"] = str(batch)
            editors = [trial.edit(subject, FILE=str(file), **given)]
        trial.wait_until(until + STRAGGLERS, run.tell)
        for editor in editors:
            trial.ended(editor, 60.0)
        for scheduler in schedulers:
            trial.stop(scheduler)
        window = trial.count().between(since, until)
        made = json.loads(file.read_text()) if batch else {"edits": 0, "seconds": 1}
    slots = window.slots()
    due = ENTRIES * seconds // every
    return {
        "replicas": replicas,
        "due": due,
        "delivered": len(slots.arrived),
        "doubled": len(window.arrived) - len(slots.arrived) if slots.dated else None,
        "share": round(len(slots.arrived) / due, 5),
        "edits_rate": round(made["edits"] / made["seconds"]),
        "late_ms": spread(slots.lateness(), scale=1e3) if slots.dated else None,
    }
