"""From the commit until the message is in the broker, one message at a time."""

from __future__ import annotations

import time
from functools import partial

import psycopg
import redis

from benchmarks.outbox.field import Field
from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.schedules.arrivals import spread
from celery_pecker.kernel.clock import chance

ROW = "outbox_latency"
REST = 0.15
"""Seconds between two commits at most, so that they hit any phase of the relay's."""
LONGEST = 10.0


def run(run: Run) -> None:
    """Measure with one relay."""
    run.trial(ROW, "one relay", 6 + run.plan.submits * 1.5, partial(latency, run))


def latency(run: Run) -> Sample:
    """Return the milliseconds from the return of commit to the message."""
    commits = run.plan.submits * 10
    field = Field(run.servers, "redis")
    took: list[float] = []
    with (
        field.open(),
        redis.Redis.from_url(run.servers.redis, socket_timeout=2 * LONGEST) as broker,
    ):
        field.start_relay()
        with psycopg.connect(field.dsn) as connection:
            for _ in range(commits):
                time.sleep(REST * chance())
                field.outbox.send(field.task.s(1), connection=connection)
                connection.commit()
                began = time.perf_counter()
                if broker.blpop([field.name], timeout=LONGEST) is None:
                    message = f"no message after {LONGEST:.0f} s"
                    raise TimeoutError(message)
                took.append(time.perf_counter() - began)
                run.tell()
    return {"commits": commits, "ms": spread(took, scale=1e3, digits=1)}
