"""What is asked of PostgreSQL: modifying statements, HOT updates, WAL.

Statements are counted in the server's own log, by their labels, for which the DSN of
these schedulers turns on `log_statement`. Only the embedded server's log is read.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from functools import partial
from pathlib import Path

import psycopg

from benchmarks.results import Sample
from benchmarks.rows.asked import logged
from benchmarks.run import Run
from benchmarks.schedules import cost
from benchmarks.schedules.cost import Written
from benchmarks.schedules.subjects import Subject
from benchmarks.schedules.trial import Trial

ROW = "statements"
ENTRIES = 1_000
READING = frozenset({"read_tasks", "read_schema"})
"""Labels that change nothing; all others are called modifying, also when they find
nothing to change."""
_LABEL = re.compile(rb"/\* celery_pecker:(\w+) \*/")
FLUSH = 1.5
"""Seconds after which PostgreSQL has published its counts."""


def run(run: Run) -> None:
    """Measure one replica, and three that compete."""
    if run.servers.postgres_log is None:
        run.note("statements: the log of a given server is not read: not measured")
        return
    log = run.servers.postgres_log
    for replicas in (1, 3):
        run.trial(
            ROW,
            f"{ENTRIES:,} entries, {replicas} replicas",
            run.plan.statements,
            partial(measure, run, replicas, log),
            replicas=replicas,
        )


def measure(run: Run, replicas: int, log: Path) -> Sample:
    """Return what so many replicas asked and wrote."""
    servers = run.servers
    with (
        Trial(servers, entries=ENTRIES) as trial,
        psycopg.connect(servers.dsn, autocommit=True) as connection,
    ):
        dsn = logged(servers.dsn)
        schedulers = [trial.launch(Subject.FAST, DSN=dsn) for _ in range(replicas)]
        for scheduler in schedulers:
            trial.await_ready(scheduler, Subject.FAST)
        # HOT needs a few rounds of every row before each page has its room
        trial.wait_until(time.time() + 5.0, run.tell)
        began, before = log.stat().st_size, Written.read(connection, trial.name)
        since = time.time()
        trial.wait_until(since + run.plan.statements, run.tell)
        until = time.time()
        text = log.read_bytes()[began:]
        wal = Written.read(connection, trial.name).wal - before.wal
        told = [cost.wakes(one.life_log(), since, until) for one in schedulers]
        trial.stop(*schedulers)
        trial.wait_until(time.time() + FLUSH, run.tell)
        after = Written.read(connection, trial.name)
        arrivals = trial.count()
    slots = arrivals.between(since, until).slots()
    asked = Counter(label.decode() for label in _LABEL.findall(text))
    wakes = [wake for one in told for wake in one]
    won = [wake for wake in wakes if wake.won]
    modifying = {name: n for name, n in asked.items() if name not in READING}
    return {
        "seconds": round(until - since, 1),
        "delivered": len(slots.due),
        "messages_in_all": len(arrivals.due),
        "updates_in_all": after.updates,
        "claims": asked["claim_due"],
        "claims_that_won": len(won),
        "won": sum(wake.won for wake in won),
        "asked": dict(asked),
        "modifying_per_second": round(sum(modifying.values()) / (until - since), 3),
        "wal_bytes_per_slot": round(wal / max(len(slots.due), 1), 1),
        "hot_share": after.hot_share_since(before),
    }
