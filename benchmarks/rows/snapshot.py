"""Somebody holds a snapshot: dead rows cannot be removed, and each slot makes one.

A transaction left open (a forgotten `begin`, a long report) is the usual way in which
a hot table of PostgreSQL dies. No slot may be lost; claims may become slower and the
table larger, and both have to heal.
"""

from __future__ import annotations

import time

import psycopg
from psycopg import sql

from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.schedules import cost
from benchmarks.schedules.arrivals import spread
from benchmarks.schedules.subjects import Subject
from benchmarks.schedules.trial import Trial

ROW = "snapshot"
ENTRIES = 1_000
EVERY = 1.0


def run(run: Run) -> None:
    """Measure before, while and after a snapshot is held."""
    before, held, after = run.plan.snapshot
    if not held:
        return
    run.trial(
        ROW,
        f"{ENTRIES:,} entries, held for {held} s",
        before + held + after,
        lambda: measure(run),
        held=held,
    )


def measure(run: Run) -> Sample:
    """Return the course of claim time and table size, and what was lost."""
    before, held, after = run.plan.snapshot
    dsn = run.servers.dsn
    with (
        Trial(run.servers, entries=ENTRIES) as trial,
        psycopg.connect(dsn, autocommit=True) as looker,
        psycopg.connect(dsn) as holder,
    ):
        scheduler = trial.start(Subject.FAST)
        trial.wait_until(time.time() + 2.0, run.tell)
        table = sql.Identifier(trial.name, "pecker_tasks")
        sizes: list[list[float]] = []
        start = time.time()

        def look(until: float) -> None:
            while time.time() < until:
                trial.wait_until(min(time.time() + EVERY, until), run.tell)
                sizes.append([round(time.time() - start, 2), *_sizes(looker, trial)])

        look(start + before)
        holder.execute("set transaction isolation level repeatable read")
        holder.execute(sql.SQL("select count(*) from {}").format(table))
        began = time.time()
        look(began + held)
        holder.rollback()
        ended = time.time()
        look(ended + after)
        log = scheduler.life_log()
        trial.stop(scheduler)
        arrivals = trial.count()
    slots = arrivals.between(start, ended + after - 2).slots()
    wakes = cost.wakes(log, start, ended + after)
    rounds = round(float(slots.due.max() - slots.due.min())) + 1
    phases = {"before": (start, began), "held": (began, ended), "after": (ended, 9e12)}
    return {
        "entries": ENTRIES,
        "due": rounds * ENTRIES,
        "delivered": len(slots.due),
        "held_from_s": round(began - start, 2),
        "held_until_s": round(ended - start, 2),
        "claim_ms": {
            name: spread([w.claim_ms for w in wakes if since <= w.when < until])
            for name, (since, until) in phases.items()
        },
        "last_ms": {
            name: spread(arrivals.between(since, until).last_lateness(), scale=1e3)
            for name, (since, until) in phases.items()
        },
        "claims": [[round(w.when - start, 2), w.claim_ms] for w in wakes if w.won],
        "sizes": sizes,
    }


def _sizes(connection: psycopg.Connection, trial: Trial) -> list[float]:
    """Return the table's and its index's size in MB, and its dead rows."""
    row = connection.execute(
        "select pg_relation_size(relid), pg_indexes_size(relid), n_dead_tup"
        " from pg_stat_user_tables where schemaname = %s and relname = 'pecker_tasks'",
        [trial.name],
    ).fetchone()
    if row is None:
        return [0.0, 0.0, 0]
    return [round(row[0] / 2**20, 3), round(row[1] / 2**20, 3), row[2]]
