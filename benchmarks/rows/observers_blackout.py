"""All hosts and their supervisors are killed, and all of them started anew.

Nobody lives who could say that the others are dead: leases have to end, and the new
hosts have to be known for a whole lease before they may say so.
"""

from __future__ import annotations

import os
import signal
import time
from functools import partial

from benchmarks.observers.field import LEASE, TIMEOUT, Field
from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.schedules.arrivals import spread
from celery_pecker.testing import eventually

ROW = "observers_blackout"
HOSTS = 4


def run(run: Run) -> None:
    """Measure once."""
    many = run.plan.observed
    lasts = 50 + many / 300
    run.trial(ROW, "all four", lasts, partial(blackout, run), observers=many)


def blackout(run: Run) -> Sample:
    """Return when each observer ran again, counted from the start of the new hosts."""
    field, many = Field(run.servers), run.plan.observed
    with field.open():
        field.fill(HOSTS, {"idle": many})
        names = {one.name for one in field.lines()}
        before, processes = {*field.held()}, field.processes()
        for container in field.hosts.values():
            container.kill("SIGSTOP")  # or they would say that their hosts are dead
        for process in processes:
            os.kill(process.pid, signal.SIGKILL)
        for container in field.hosts.values():
            container.kill()
        since = time.monotonic()
        for container in field.hosts.values():
            container.start()
        eventually(
            lambda: len(field.held().keys() - before) == HOSTS, TIMEOUT, "hosts are up"
        )
        up = time.monotonic() - since
        begun = field.wait_for(names, since)
    return {
        "hosts": HOSTS,
        "lease": LEASE,
        "up_s": round(up, 2),
        "after_return_s": spread([at - since for at in begun.values()]),
    }
