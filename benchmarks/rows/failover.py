"""The winner is killed, again and again: how long is the task silent?

Three replicas of ours, all ready at each kill. Beside it what people do with Celery's
beat: one beat that a supervisor starts again the moment it dies, and two at once.
"""

from __future__ import annotations

import os
import random
import signal
import time

import numpy as np
import psycopg
from psycopg import sql

from benchmarks.arrivals import Arrivals, spread
from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.trial import Subject, Trial
from celery_pecker.testing import eventually
from celery_pecker.testing.processes import ProcessContainer

ROW = "failover"
SEED = 20


def run(run: Run) -> None:
    """Measure all three."""
    plan = run.plan
    run.trial(ROW, "three replicas", plan.kills * 3.4, lambda: ours(run), case="ours")
    run.trial(
        ROW,
        "one beat, restarted at once",
        plan.restarts * 4.0,
        lambda: restarted(run),
        case="beat restarted",
    )
    run.trial(ROW, "two beats", plan.doubles, lambda: doubles(run), case="two beats")


def ours(run: Run) -> Sample:
    """Return the gaps at each kill of the replica that won the last slot."""
    chance = random.Random(SEED)
    with Trial(run.ground) as trial:
        replicas = [trial.start(Subject.FAST) for _ in range(3)]
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
        "kills": len(kills),
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
    with psycopg.connect(run.ground.dsn, autocommit=True) as connection:

        def alive() -> list[ProcessContainer]:
            # the last winner may be the one just killed
            row = connection.execute(query).fetchone()
            return [one for one in replicas if row is not None and one.pid == row[0]]

        return eventually(alive, 10.0, "a living replica has won")[0]


def restarted(run: Run) -> Sample:
    """Return the gaps of a beat that is started again the moment it was killed."""
    with Trial(run.ground) as trial:
        beat = trial.start(Subject.BEAT)
        kills = []
        for _ in range(run.plan.restarts):
            trial.wait_until(time.time() + 3.5, run.tell)
            kills.append(time.time())
            beat.kill("SIGKILL")
            beat.start()
        trial.wait_until(time.time() + 4.0, run.tell)
        trial.stop(beat)
        arrivals = trial.count()
    return {"kills": len(kills), **_gaps(arrivals, kills)}


def doubles(run: Run) -> Sample:
    """Return how often two beats send each slot."""
    with Trial(run.ground) as trial:
        trial.start(Subject.BEAT)
        trial.launch(Subject.BEAT)
        # the second has sent its first: Celery loads, and then waits a period
        trial.wait_until(time.time() + 6.0, run.tell)
        since = time.time()
        until = since + run.plan.doubles
        trial.wait_until(until + 0.5, run.tell)
        arrivals = trial.count()
    sent = len(arrivals.between(since, until).arrived)
    return {"due": run.plan.doubles, "delivered": sent}


def _gaps(arrivals: Arrivals, kills: list[float]) -> Sample:
    arrived = np.sort(arrivals.arrived)
    at = np.searchsorted(arrived, kills)
    inside = (at > 0) & (at < len(arrived))
    gaps = arrived[at[inside]] - arrived[at[inside] - 1]
    return {
        "gap_s": spread(gaps, digits=3),
        "gaps_s": [round(float(gap), 4) for gap in gaps],
    }
