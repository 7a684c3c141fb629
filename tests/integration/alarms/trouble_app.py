"""An app in which much goes wrong that alarms look for."""

from __future__ import annotations

import json
import os
from typing import Any

import psycopg
from celery import Celery

import celery_pecker.worker
import throttle
from celery_pecker import deadline
from celery_pecker.kernel.clock import SYSTEM, pause
from celery_pecker.observers import Lease, Observers, Retry
from celery_pecker.outbox import Outbox
from celery_sharding import Shard, Sharding

CONF = "PECKER_TEST_TROUBLE"


def every_half_second(task: str, **pecker: object) -> dict[str, Any]:
    """Return an entry."""
    return {"task": task, "schedule": 0.5, "pecker": pecker}


app = Celery("trouble", broker="memory://")
app.conf.update(
    pecker_worker={"scheduler", "observers"},
    pecker_observers_lease=2.0,
    pecker_alarms={
        "silent": {"after": 1.0},
        "failing": {"after": 0.0, "only": ["fails"]},
        "misfire": {"count": 2, "only": ["locked"]},
        "overrun": {"only": ["overruns"]},
        "overtaken": {"count": 1, "only": ["edited"]},
        "clock": {},
        "shut": {"after": 1.0},
        "job_failed": {},
        "outbox_parked": {},
        "observer_parked": {},
        "observer_host": {"after": 0.0},
        "observer_notices": {"count": 1},
    },
    pecker_gate="throttle.gate.schedules:gate",
    throttle_limits={"main": 100},
    throttle_estimator="fast",
    worker_prefetch_multiplier=1,
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
    beat_schedule={
        "locked": every_half_second("nothing", misfire="skip"),
        "fails": every_half_second("fails"),
        "overruns": every_half_second("overruns", timeout=0.3),
    },
)
app.conf.update(json.loads(os.environ.get(CONF, "{}")))
celery_pecker.worker.connect()
outbox, observers, sharding = Outbox(app), Observers(app), Sharding(app)


@app.task(name="nothing")
def nothing() -> None:
    """Do nothing."""


@app.task(name="fails")
def fails() -> None:
    """Fail."""
    message = "no such table"
    raise RuntimeError(message)


@app.task(name="overruns")
def overruns() -> None:
    """Go on until the deadline ends it."""
    while True:
        pause(0.01)
        deadline.check()


@app.task(name="floods")
def floods(seconds: float) -> None:
    """Do more to the database than it is to bear."""
    with psycopg.connect(app.conf.pecker_dsn, autocommit=True) as connection:
        throttle.instrument.psycopg(connection, database="main")
        until = SYSTEM.monotonic() + seconds
        while SYSTEM.monotonic() < until:
            connection.execute("select 1")
            pause(0.002)


parks: Any = app.task(name="parks", outbox="until_done", outbox_attempts=1)(fails.run)


@sharding.task(name="broken")
def broken(shard: Shard) -> None:
    """Fail as a whole, since its plan does."""
    shard.each(lambda item: item)


@broken.pre_process
def no_plan(job: object, items: object) -> None:
    """Fail."""
    message = "no such file"
    raise FileNotFoundError(message)


@observers.observer(retry=Retry(1, (0.05,)), on_parked=nothing.s())
async def failing(lease: Lease) -> None:
    """Fail each time."""
    message = f"{lease.name} cannot go on"
    raise ConnectionError(message)
