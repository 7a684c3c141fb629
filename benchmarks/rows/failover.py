"""The active one is killed, again and again: how long is the task silent?

Ours: three replicas, all ready at each kill, the last winner killed. RedBeat: two
copies, the holder of its lock killed. Both are started again at once. The others have
nobody to take over: one copy, which a supervisor starts again the moment it dies.
"""

from __future__ import annotations

import os
import random
import signal
import time
from functools import partial

import numpy as np
import psycopg
from psycopg import sql

from benchmarks.plan import overhead
from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.schedules.arrivals import Arrivals, spread
from benchmarks.schedules.subjects import Subject
from benchmarks.schedules.trial import Trial
from celery_pecker.testing import eventually
from example_project.processes import ProcessContainer

ROW = "failover"
SEED = 20
REPLICAS = 3
LOCK = 5.0
"""Seconds that RedBeat's lock lives: five times its `beat_max_loop_interval` of 1."""


def run(run: Run) -> None:
    """Measure each of those that are compared."""
    plan = run.plan
    for subject in plan.compared:
        match subject:
            case Subject.FAST:
                lasts, measure, copies = plan.kills * 3.4, ours, REPLICAS
            case Subject.REDBEAT:
                lasts, measure, copies = plan.lock_kills * 8.0 + 3.0, locked, 2
            case _:
                lasts, copies = plan.restarts * 5.0 + 4.0, 1
                measure = partial(restarted, subject=subject)
        run.trial(
            ROW,
            f"{subject}, copies: {copies}",
            lasts + overhead(subject),
            partial(measure, run),
            subject=subject,
            copies=copies,
        )


def ours(run: Run) -> Sample:
    """Return the gaps at each kill of the replica that won the last slot."""
    chance = random.Random(SEED)
    with Trial(run.servers) as trial:
        replicas = [trial.start(Subject.FAST) for _ in range(REPLICAS)]
        since = time.time() + 1.0
        trial.wait_until(since + 1.0, run.tell)
        kills = []
        for _ in range(run.plan.kills):
            trial.wait_until(time.time() + 1.0 + chance.random(), run.tell)
            victim = _winner(run, trial, replicas)
            kills.append(time.time())
            os.killpg(victim.pid, signal.SIGKILL)
            victim.wait()
            victim.start()
            trial.await_words(victim, "pecker: ready")
        trial.wait_until(time.time() + 2.5, run.tell)
        until = time.time() - 1.0
        trial.stop(*replicas)
        arrivals = trial.count()
    window = arrivals.between(since, until)
    slots = window.slots()
    due = round(float(slots.due.max() - slots.due.min())) + 1
    return {
        "due": due,
        "delivered": len(slots.due),
        "doubled": len(window.due) - len(slots.due),
        **_gaps(arrivals, kills),
    }


def _winner(
    run: Run, trial: Trial, replicas: list[ProcessContainer]
) -> ProcessContainer:
    """Return the replica that won the last slot."""
    query = sql.SQL(
        "select pid from {schema}.pecker_tasks"
        " join {schema}.pecker_replicas using (holder)"
    ).format(schema=sql.Identifier(trial.name))
    with psycopg.connect(run.servers.dsn, autocommit=True) as connection:

        def alive() -> list[ProcessContainer]:
            # the last winner may be the one just killed
            row = connection.execute(query).fetchone()
            return [one for one in replicas if row is not None and one.pid == row[0]]

        return eventually(alive, 10.0, "a living replica has won")[0]


def locked(run: Run) -> Sample:
    """Return the gaps at each kill of the copy that has RedBeat's lock."""
    chance = random.Random(SEED)
    with Trial(run.servers) as trial:
        given = {"level": "DEBUG", "LOCK": str(round(LOCK))}
        copies = [trial.start(Subject.REDBEAT, **given)]
        copies.append(trial.launch(Subject.REDBEAT, **given))
        trial.await_words(copies[1], "beat: Acquiring lock")
        trial.wait_until(time.time() + 2.0, run.tell)
        kills = []
        for _ in range(run.plan.lock_kills):
            trial.wait_until(time.time() + chance.random(), run.tell)
            [holder] = eventually(
                lambda: [one for one in copies if "Acquired lock" in one.life_log()],
                LOCK * 4,
                "a copy of RedBeat has the lock",
            )
            # one that has just got the lock has missed slots to send
            trial.wait_until(time.time() + 1.5, run.tell)
            kills.append(time.time())
            holder.kill("SIGKILL")
            holder.start()
            trial.await_words(holder, "beat: Acquiring lock")
        trial.wait_until(time.time() + LOCK + 4.0, run.tell)
        trial.stop(*copies)
        arrivals = trial.count()
    return {"lock_s": LOCK, **_gaps(arrivals, kills)}


def restarted(run: Run, subject: Subject) -> Sample:
    """Return the gaps of one that is started again the moment it was killed."""
    chance = random.Random(SEED)
    with Trial(run.servers) as trial:
        process = trial.start(subject)
        kills = []
        for _ in range(run.plan.restarts):
            trial.wait_until(time.time() + 4.5 + chance.random(), run.tell)
            kills.append(time.time())
            process.kill("SIGKILL")
            process.start()
        trial.wait_until(time.time() + 5.0, run.tell)
        trial.stop(process)
        arrivals = trial.count()
    return _gaps(arrivals, kills)


def _gaps(arrivals: Arrivals, kills: list[float]) -> Sample:
    arrived = np.sort(arrivals.arrived)
    at = np.searchsorted(arrived, kills)
    inside = (at > 0) & (at < len(arrived))
    gaps = arrived[at[inside]] - arrived[at[inside] - 1]
    return {
        "kills": len(kills),
        "gap_s": spread(gaps, digits=3),
        "gaps_s": [round(float(gap), 4) for gap in gaps],
    }
