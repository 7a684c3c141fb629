"""How long observers do not run while their host hands over and ends.

One of four hosts; and all four, one after the other, each replaced by a new one that
is up before: a rolling deploy.
"""

from __future__ import annotations

import os
import signal
import time
from functools import partial

from benchmarks.observers.field import TIMEOUT, Field
from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.schedules.arrivals import spread
from benchmarks.tables.observers import ONE
from celery_pecker.testing import eventually

ROW = "observers_drain"
HOSTS = 4
DEPLOY = "rolling deploy"


def run(run: Run) -> None:
    """Measure one host, and a deploy."""
    many = run.plan.observed
    lasts = 40 + many / 400
    run.trial(ROW, ONE, lasts, partial(drain, run), way=ONE)
    run.trial(ROW, DEPLOY, 4 * lasts, partial(deploy, run), way=DEPLOY)


def drain(run: Run) -> Sample:
    """Return the gaps of those that the host ran."""
    field = Field(run.servers)
    with field.open():
        field.fill(HOSTS, run.plan.observed)
        container = next(iter(field.hosts.values()))
        [host, *_] = field.processes()
        latest = {one.name: one for one in field.lines()}
        names = {name for name, one in latest.items() if one.pid == host.pid}
        since = time.monotonic()
        os.kill(container.pid, signal.SIGTERM)
        begun = field.wait_for(names, since)
        ended = {one.name: one.at for one in field.lines() if one.pid == host.pid}
    gaps = [begun[name] - ended[name] for name in names]
    return {
        "observers": run.plan.observed,
        "hosts": HOSTS,
        "moved": len(names),
        "seconds": round(max(begun.values()) - since, 2),
        "gap_s": spread(gaps),
    }


def deploy(run: Run) -> Sample:
    """Return the gaps of all observers while each host is replaced by a new one."""
    field, many = Field(run.servers), run.plan.observed
    with field.open():
        field.fill(HOSTS, many)
        before = len(field.lines())
        since = time.monotonic()
        for number, container in enumerate([*field.hosts.values()]):
            field.start_host(f"new{number}")
            _up(field, HOSTS + 1)
            os.kill(container.pid, signal.SIGTERM)
            _up(field, HOSTS)
        eventually(lambda: field.running() == many, TIMEOUT, "all run")
        seconds = time.monotonic() - since
        ended: dict[str, float] = {}
        gaps = []
        for one in field.lines()[before:]:
            if one.what == "ended":
                ended[one.name] = one.at
            elif one.name in ended:
                gaps.append(one.at - ended.pop(one.name))
    return {
        "observers": many,
        "hosts": HOSTS,
        "moved": len(gaps),
        "seconds": round(seconds, 2),
        "gap_s": spread(gaps),
    }


def _up(field: Field, hosts: int) -> None:
    eventually(lambda: len(field.observers.nodes()) == hosts, TIMEOUT, "hosts are up")
