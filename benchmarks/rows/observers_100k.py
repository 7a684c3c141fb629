"""Very many observers on four hosts: which statement takes too long first.

A host waits a quarter of its lease for an answer. A statement that takes longer makes
it miss renewals, so that is where it breaks. All statements are timed by the server's
log while observers begin, sleep, lose a host, and are looked at by people.
"""

from __future__ import annotations

import os
import signal
import time
from functools import partial

from benchmarks.observers.field import LEASE, Field
from benchmarks.observers.logged import Took, timed
from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.schedules.arrivals import spread
from celery_pecker.kernel.database import Database
from celery_pecker.observers.hosts.host_main import DATABASE
from celery_pecker.observers.overview import ObserversOverview, Which
from celery_pecker.testing import EmbeddedPostgres

ROW = "observers_100k"
HOSTS = 4
LIMIT = LEASE * DATABASE
"""Seconds for which a host waits for an answer."""
LOOKS = 5
"""Of people, at all observers."""
SETTINGS = {"log_min_duration_statement": "0", "max_wal_size": "2GB"}


def run(run: Run) -> None:
    """Measure each number of observers."""
    for many in run.plan.swarms:
        lasts = 60 + many / 1_000 + run.plan.still
        run.trial(ROW, f"{many:,}", lasts, partial(swarm, run, many), observers=many)


def swarm(run: Run, many: int) -> Sample:
    """Return how long each statement took."""
    with EmbeddedPostgres(settings=SETTINGS) as server:
        field = Field(run.servers, dsn=server.dsn)
        with field.open():
            began = time.monotonic()
            field.fill(HOSTS, many)
            filled = time.monotonic() - began
            since = time.monotonic()
            while time.monotonic() - since < run.plan.still:
                time.sleep(0.5)
                run.tell()
            gaps = _kill(field)
            _look(field)
            lines = server.log.splitlines()
    took = timed(lines)
    return {
        "hosts": HOSTS,
        "limit_s": LIMIT,
        "filled_s": round(filled, 1),
        "gap_s": spread(gaps),
        "statements": {label: _figures(one) for label, one in sorted(took.items())},
    }


def _kill(field: Field) -> list[float]:
    [host, *_] = field.processes()
    latest = {one.name: one for one in field.lines()}
    names = {name for name, one in latest.items() if one.pid == host.pid}
    since = time.monotonic()
    os.kill(host.pid, signal.SIGKILL)
    begun = field.wait_for(names, since)
    return [at - since for at in begun.values()]


def _look(field: Field) -> None:
    """Do what `pecker observers`, metrics and Flower's page do."""
    database = Database.of(field.observers.settings, role="observers")
    overview = ObserversOverview(database)
    for _ in range(LOOKS):
        overview.summary()
        overview.page(Which(), limit=100)
        overview.page(Which(search="99"), limit=100)
        overview.history("idle0", limit=100)
    database.close()


def _figures(took: Took) -> Sample:
    many = len(took.ms)
    return {
        "calls": many,
        "mean_ms": round(sum(took.ms) / many, 2) if many else None,
        "max_ms": round(took.most, 1),
        "cancelled": took.cancelled,
    }
