"""A task that never ends, on Celery's own two brokers and at a warm shutdown.

Its message is acknowledged when it ends, that is never. Redis hands it out anew after
``visibility_timeout``, RabbitMQ closes the channel after ``consumer_timeout``: an hour
and 30 minutes by default, some seconds in this row.
"""

from __future__ import annotations

import os
import signal
import time
from functools import partial

from kombu.transport.redis import Channel

from benchmarks.observers import queue
from benchmarks.observers.field import Field
from benchmarks.observers.queue import ACK_TIMEOUT, Fleet
from benchmarks.results import Sample
from benchmarks.run import Run
from celery_pecker.testing import eventually

ROW = "observers_endless"
WORKERS = 3
DEFAULTS = {"redis": Channel.visibility_timeout, "rabbitmq": 1800}
"""Seconds. Redis: `Channel.visibility_timeout` of kombu, as Celery's page of Redis has
it. RabbitMQ: rabbitmq.com/docs/consumers, "Delivery Acknowledgement Timeout"."""
FAILURES = ("PRECONDITION_FAILED", "PreconditionFailed")
WAITED = 30.0
"""Seconds for which a warm shutdown is watched."""
HOSTS = 2
OBSERVERS = 10


def run(run: Run) -> None:
    """Measure both brokers, and both kinds of shutdown."""
    for broker in ("redis", "rabbitmq"):
        measure = partial(unacknowledged, run, broker)
        run.trial(ROW, broker, 25 + run.plan.forever, measure, what=broker)
    run.trial(ROW, "task", 15 + WAITED, partial(task, run), what="task")
    run.trial(ROW, "observer", 30, partial(observer, run), what="observer")


def unacknowledged(run: Run, broker: str) -> Sample:
    """Return how often the one message was run, and what became of the workers."""
    if broker == "redis":
        return _watched(run, broker, run.servers.redis)
    with queue.rabbitmq() as url:
        return _watched(run, broker, url)


def _watched(run: Run, broker: str, url: str) -> Sample:
    fleet = Fleet(url, WORKERS)
    with fleet.running() as began:
        fleet.watch(run.plan.forever, run.tell)
        runs, most = fleet.runs(), fleet.most_at_once()
        codes = [worker.exit_code for worker in fleet.workers]
        logs = [worker.life_log() for worker in fleet.workers]
    return {
        "workers": WORKERS,
        "patience_s": ACK_TIMEOUT,
        "default_s": DEFAULTS[broker],
        "watched_s": run.plan.forever,
        "runs": len(runs),
        "at_once": most,
        "second_after_s": round(runs[1].began - began, 1) if runs[1:] else None,
        "refused": sum(any(word in log for word in FAILURES) for log in logs),
        "ended": sum(code is not None for code in codes),
        "exit_codes": codes,
    }


def task(run: Run) -> Sample:
    """Return how long a worker with the task lives on after a SIGTERM."""
    fleet = Fleet(run.servers.redis, 1)
    with fleet.running():
        [worker] = fleet.workers
        since = time.monotonic()
        os.kill(worker.pid, signal.SIGTERM)
        while time.monotonic() - since < WAITED and worker.exit_code is None:
            time.sleep(0.1)
            run.tell()
        ended = worker.exit_code is not None
        lasted = time.monotonic() - since
        [*_, last] = fleet.runs()
    return {
        "ended": ended,
        "seconds": round(lasted, 1),
        "runs_on": last.seen > since + lasted / 2,
    }


def observer(run: Run) -> Sample:
    """Return how long a supervisor lives on after a SIGTERM, and the observer's gap."""
    field = Field(run.servers)
    with field.open():
        field.fill(HOSTS, OBSERVERS)
        latest = {one.name: one for one in field.lines() if one.what == "began"}
        pids = [one.pid for one in latest.values()]
        pairs = zip(field.processes(), field.hosts.values(), strict=True)
        host, container = max(pairs, key=lambda pair: pids.count(pair[0].pid))
        names = {name for name, one in latest.items() if one.pid == host.pid}
        since = time.monotonic()
        os.kill(container.pid, signal.SIGTERM)
        eventually(lambda: container.exit_code is not None, WAITED, "it has ended")
        lasted = time.monotonic() - since
        begun = field.wait_for(names, since)
        ended = {one.name: one.at for one in field.lines() if one.pid == host.pid}
        run.tell()
    return {
        "ended": True,
        "seconds": round(lasted, 1),
        "gap_s": round(max(begun[name] - ended[name] for name in names), 2),
    }
