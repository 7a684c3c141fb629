"""How long observers do not run after a kill -9 of their host, one of four.

The host dies alone: its supervisor says so at once; or with its supervisor, as where
the machine dies: its lease has to be over first.
"""

from __future__ import annotations

import os
import signal
import time
from functools import partial

from benchmarks.observers.field import LEASE, Field
from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.schedules.arrivals import spread

ROW = "observers_kill"
HOSTS = 4
REST = 2 * LEASE
"""Seconds; who held its own lease for less than a whole one buries nobody."""
WAYS = ("the host alone", "host and supervisor")


def run(run: Run) -> None:
    """Measure both ways."""
    many = run.plan.observed
    for way in WAYS:
        lasts = 50 + many / 400
        run.trial(ROW, way, lasts, partial(kill, run, way), way=way, observers=many)


def kill(run: Run, way: str) -> Sample:
    """Return the gaps of those that the host ran."""
    field = Field(run.servers)
    with field.open():
        field.fill(HOSTS, run.plan.observed)
        time.sleep(REST)
        container = next(iter(field.hosts.values()))
        [host, *_] = field.processes()
        latest = {one.name: one for one in field.lines()}
        names = {name for name, one in latest.items() if one.pid == host.pid}
        since = time.monotonic()
        if way == WAYS[1]:
            container.kill("SIGSTOP")  # or it would say that its host is dead
        os.kill(host.pid, signal.SIGKILL)
        if way == WAYS[1]:
            container.kill()
        begun = field.wait_for(names, since)
    gaps = [at - since for at in begun.values()]
    return {"hosts": HOSTS, "killed": len(names), "gap_s": spread(gaps)}
