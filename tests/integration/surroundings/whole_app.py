"""An app with rows of every kind: a schedule, a sharded job, an outbox, an observer.

Each run writes a note into the database of `pecker_dsn`.
"""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

import psycopg
from celery import Celery

import celery_pecker.worker
from celery_pecker import runs
from celery_pecker.kernel.clock import pause
from celery_pecker.observers import Lease, Observers
from celery_pecker.outbox import Outbox
from celery_sharding import Shard, Sharding

CONF = "PECKER_TEST_WHOLE_CONF"
NOTES = "create table notes (kind text not null, what text not null, epoch bigint)"
NOTE = "insert into notes (kind, what, epoch) values (%s, %s, %s)"


class Whole(NamedTuple):
    """The app, and what else there is to close."""

    app: Celery
    outbox: Outbox
    observers: Observers


def make(conf: dict[str, Any]) -> Whole:
    """Return the app, with tasks `whole.*` and the observer `watch`."""
    app = Celery("whole", set_as_current=False)
    app.conf.update(
        pecker_worker={"scheduler", "observers"},
        pecker_observers_capacity=10,
        pecker_outbox_backoff=5.0,
        task_ignore_result=True,
        worker_prefetch_multiplier=1,
        broker_connection_retry_on_startup=True,
        beat_schedule={
            "tick": {"task": "whole.tick", "schedule": 2.0, "pecker": {"timeout": 2.0}}
        },
    )
    app.conf.update(conf)
    outbox = Outbox(app)
    sharding = Sharding(app)
    observers = Observers(app)

    def connect() -> psycopg.Connection[Any]:
        return psycopg.connect(conf["pecker_dsn"], prepare_threshold=None)

    def note(kind: str, what: object, epoch: int | None = None) -> None:
        with connect() as connection:
            connection.execute(NOTE, [kind, str(what), epoch])

    @app.task(name="whole.tick", shared=False)
    def tick() -> None:
        """Note the slot."""
        run = runs.current()
        assert run is not None
        note("tick", run.due_us, run.epoch)

    @app.task(name="whole.relayed", outbox=True, shared=False)
    def relayed(what: int) -> None:
        """Note a row that went when the broker had its message."""
        note("relayed", what)

    @app.task(name="whole.lasting", outbox="until_done", shared=False)
    def lasting(what: int) -> None:
        """Note a row that lives until this has succeeded."""
        note("lasting", what)

    @sharding.task(name="whole.items")
    def items(shard: Shard) -> None:
        """Note each item."""
        for item in shard:
            note("item", item)
            pause(0.05)
            shard.ok(item)

    @observers.observer
    def watch(lease: Lease) -> None:
        """Note under a guard, some times a second, until it is to end."""
        while not lease.wait(0.3):
            with connect() as connection:
                lease.guard(connection)
                connection.execute(NOTE, ["watch", lease.name, lease.epoch])

    return Whole(app, outbox, observers)


if CONF in os.environ:
    celery_pecker.worker.connect()
    # hosts of observers look for these at the top
    app, outbox, observers = make(json.loads(os.environ[CONF]))
    app.set_current()
