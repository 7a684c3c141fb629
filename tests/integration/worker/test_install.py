"""Who gets the guard, and who does not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

from celery import Celery, signals
from celery.contrib.testing.worker import start_worker
from kombu import Connection
from kombu.transport import redis as transport

import celery_pecker.worker
from celery_pecker.worker import (
    ObserversStep,
    OutboxStep,
    RedisGuardStep,
    RunsStep,
    SchedulerStep,
    install,
)

LOOK = """
import json, sys
from celery import Celery
import celery_pecker.worker

connects, apps = json.loads(sys.argv[1])
if connects:
    celery_pecker.worker.connect()
for conf in apps:
    app = Celery("proj", set_as_current=False)
    app.conf.update(conf)
    if not connects:
        celery_pecker.worker.install(app)
    worker = app.Worker(pool="solo", loglevel="ERROR", quiet=True)
    steps = [type(step).__name__ for step in worker.steps]
    guarded = any(name.endswith("RedisGuardStep") for name in steps)
    print(json.dumps([guarded, "kombu.transport.redis" in sys.modules]))
"""


def look(*apps: Mapping[str, object], connects: bool) -> list[list[bool]]:
    """Return for each app, in one process: is it guarded, is Redis' transport loaded.

    Its worker was put together as the worker command does that, and not started.
    """
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOOK, json.dumps([connects, apps])],
        check=True,
        capture_output=True,
        text=True,
    )
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_settings_decide() -> None:
    """The step is in time when the worker command's first signal adds it."""
    redis = {"broker_url": "redis://127.0.0.1:1/0"}
    looks = look({**redis, "pecker_dsn": "postgresql://x/y"}, redis, connects=True)
    assert [guarded for guarded, _ in looks] == [True, False]


def test_only_workers_on_redis_are_guarded() -> None:
    """On another broker nothing is hooked, and Redis' transport is not even loaded."""
    others = ["amqp://guest:guest@127.0.0.1:1//", "memory://"]
    redis = [
        "redis://127.0.0.1:1/0",
        "rediss://127.0.0.1:1/0",
        "sentinel://127.0.0.1:1",
    ]
    looks = look(*({"broker_url": url} for url in [*others, *redis]), connects=False)
    assert looks == [[False, False]] * 2 + [[True, True]] * 3


def test_installing_twice_is_installing_once() -> None:
    """Neither steps nor receivers pile up."""
    app = Celery("twice", broker="redis://127.0.0.1:1/0")
    install(app)
    install(app)
    steps = {ObserversStep, OutboxStep, RedisGuardStep, RunsStep, SchedulerStep}
    assert app.steps["worker"] == steps

    celery_pecker.worker.connect()
    receivers = len(signals.celeryd_init.receivers)
    celery_pecker.worker.connect()
    assert len(signals.celeryd_init.receivers) == receivers


def test_nothing_outlives_the_worker(redis_url: str) -> None:
    """A worker in this process ran under guard; kombu's classes are as they were."""
    before = dict(vars(transport.QoS)), dict(vars(transport.Channel))
    app = Celery("within", broker=redis_url, set_as_current=False)
    app.conf.broker_connection_retry_on_startup = True
    install(app)

    with start_worker(app, perform_ping_check=False, pool="solo") as worker:
        consumer: Any = vars(worker)["consumer"]
        assert isinstance(consumer.task_consumer.channel.qos.ack, partial)
        assert isinstance(consumer.on_close, partial)
        assert before == (dict(vars(transport.QoS)), dict(vars(transport.Channel)))

    assert before == (dict(vars(transport.QoS)), dict(vars(transport.Channel)))
    with Connection(redis_url) as connection:
        channel: Any = connection.default_channel
        assert not isinstance(channel.qos.ack, partial)
