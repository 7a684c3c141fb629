"""PostgreSQL is away for longer than a lease, stopped or frozen, under four hosts.

Half of the observers may not run without the database, the other half goes on. After
the return no host may have been called dead: all leases were over, and all hosts live.
"""

from __future__ import annotations

import time
from functools import partial

from benchmarks.observers.field import LEASE, Field
from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.schedules.arrivals import spread
from celery_pecker.kernel.errors import DatabaseUnavailable
from celery_pecker.testing import EmbeddedPostgres, eventually

ROW = "observers_outage"
HOSTS = 4
AWAY = 8.0
"""Seconds; the lease is 5."""
REST = 2 * LEASE
WAYS = ("stopped", "frozen")
DEAD = "select count(*) from {nodes} where state = 'dead'"


def run(run: Run) -> None:
    """Measure both ways."""
    many = run.plan.observed
    for way in WAYS:
        lasts = 60 + many / 400
        run.trial(ROW, way, lasts, partial(outage, run, way), way=way, observers=many)


def outage(run: Run, way: str) -> Sample:
    """Return who ended and began, and whether a host was called dead."""
    many = run.plan.observed // 2
    with EmbeddedPostgres() as server:
        field = Field(run.servers, dsn=server.dsn)
        with field.open():
            field.fill(HOSTS, {"idle": many, "stubborn": many})
            time.sleep(REST)
            before = {*field.held()}
            idle = {one.name for one in field.lines() if one.name.startswith("idle")}
            since = time.monotonic()
            server.stop() if way == "stopped" else server.freeze()
            while time.monotonic() - since < AWAY:
                time.sleep(0.1)
                run.tell()
            server.start() if way == "stopped" else server.thaw()
            back = time.monotonic()
            begun = field.wait_for(idle, since)
            time.sleep(REST)  # in which a host might still be called dead
            field.connect()
            dead = field.ask(DEAD)
            known = eventually(field.held, ignoring=(DatabaseUnavailable,))
            lines = [one for one in field.lines() if one.at > since]
    ended = {one.name: one.at for one in lines if one.what == "ended"}
    return {
        "hosts": HOSTS,
        "away_s": round(back - since, 2),
        "dead": dead,
        "same_hosts": before == {*known},
        "stop": len(idle),
        "ended": len(ended.keys() & idle),
        "go_on": many,
        "disturbed": len({one.name for one in lines} - idle),
        "after_return_s": spread([at - back for at in begun.values()]),
        "gap_s": spread([begun[name] - ended[name] for name in idle & ended.keys()]),
    }
