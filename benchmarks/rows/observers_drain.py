"""How long observers do not run while their host, one of four, hands over and ends."""

from __future__ import annotations

import os
import signal
import time
from functools import partial

from benchmarks.arrivals import spread
from benchmarks.observers.field import Field
from benchmarks.results import Sample
from benchmarks.run import Run

ROW = "observers_drain"
HOSTS = 4


def run(run: Run) -> None:
    """Measure once."""
    many = run.plan.observed
    lasts = 40 + many / 400
    run.trial(ROW, "one of four", lasts, partial(drain, run), observers=many)


def drain(run: Run) -> Sample:
    """Return the gaps of those that the host ran."""
    field = Field(run.ground)
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
        "hosts": HOSTS,
        "moved": len(names),
        "seconds": round(max(begun.values()) - since, 2),
        "gap_s": spread(gaps),
    }
