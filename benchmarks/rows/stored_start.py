"""A start with many entries, and what it costs to have them while none is due.

Stored ones; and 20,000 that stand in code, which each scheduler has to write down.

All are of every hour, so that nothing is due but one more of every second, whose first
message shows that the scheduler works. Peers write theirs as an application would.
"""

from __future__ import annotations

import time
from functools import partial

import psutil
import psycopg

from benchmarks.plan import LOADING, overhead
from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.schedules.subjects import EDITED, Subject
from benchmarks.schedules.trial import Trial

ROW = "stored_start"
CODE = 20_000
"""Entries of `beat_schedule`."""
SETTLED = 5.0
"""Seconds after the first message: what a start leaves behind is done by then."""
COMMITS = "select xact_commit from pg_stat_database where datname = current_database()"


def run(run: Run) -> None:
    """Measure each number of entries with each subject."""
    trials = [(subject, many) for many in run.plan.stored for subject in EDITED]
    if max(run.plan.stored) >= CODE:
        trials.append((Subject.FAST, CODE))
    for subject, entries in trials:
        load = LOADING.get(subject, (0, 0))[1] * entries / 1_000
        run.trial(
            ROW,
            f"{subject}, {entries:,} entries",
            overhead(subject) + SETTLED + run.plan.quiet + load,
            partial(measure, run, subject, entries),
            subject=subject,
            entries=entries,
        )


def measure(run: Run, subject: Subject, entries: int) -> Sample:
    """Return the seconds until it works, its memory, and the cost of a second."""
    with (
        Trial(run.servers, entries=entries, patient=not subject.ours) as trial,
        psycopg.connect(run.servers.dsn, autocommit=True) as connection,
    ):
        scheduler = trial.launch(subject, EVERY="3600", PULSE="1")
        began = psutil.Process(scheduler.pid).create_time()
        trial.await_words(trial.consumer, "first message", of=scheduler)
        if subject.ours:  # one entry may be sent before all are read
            trial.await_words(scheduler, "pecker: ready")
        ready = time.time() - began
        process = psutil.Process(scheduler.pid)
        trial.wait_until(time.time() + SETTLED, run.tell)
        spent, asked, since = _cpu(process), _commits(connection), time.time()
        trial.wait_until(since + run.plan.quiet, run.tell)
        lasted = time.time() - since
        sample = {
            "ready_s": round(ready, 2),
            "rss_mb": round(process.memory_info().rss / 1e6, 1),
            "cpu_ms": round((_cpu(process) - spent) / lasted * 1e3, 2),
        }
        if subject.asks_postgres:
            sample["commits"] = round((_commits(connection) - asked) / lasted, 1)
        trial.stop(scheduler)
    return sample


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def _commits(connection: psycopg.Connection) -> int:
    [count] = connection.execute(COMMITS).fetchone() or (0,)
    return int(count)
