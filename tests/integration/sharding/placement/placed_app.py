"""An app whose workers write down who ran which item, and who was given tickets."""

from __future__ import annotations

import json
import os
from typing import Any

import psycopg
from celery import Celery, signals

from celery_pecker.kernel.clock import pause
from celery_sharding import Shard, Sharding
from celery_sharding.messages import WORK
from celery_sharding.runner.shard_worker import executor_of

CONF = "PLACEMENT_TEST_CONF"
RAN = "create table ran (item int, shard int, hostname text)"
GIVEN = "create table given (hostname text)"


def make(conf: dict[str, Any]) -> Celery:
    """Return the app, its sharded task under `app.tasks["placed.note"]`."""
    app = Celery("placed", set_as_current=False)
    app.conf.update(conf)
    sharding = Sharding(app)

    @sharding.task(name="placed.note", placement="even", size=(1, 5), concurrency=3)
    def note(shard: Shard) -> None:
        """Each item stands in `ran`; it takes as long as the call says for a worker."""
        hostname = executor_of(app).hostname
        pace = float(shard.job.kwargs.get(hostname, 0.0))
        with psycopg.connect(conf["pecker_dsn"], autocommit=True) as connection:
            for item in shard:
                connection.execute(
                    "insert into ran (item, shard, hostname) values (%s, %s, %s)",
                    (item, shard.number, hostname),
                )
                pause(pace)

    @signals.task_prerun.connect(weak=False)
    def begun(task: Any, **_: object) -> None:
        """Tickets are counted where they arrive."""
        if task.app is app and task.name == WORK:
            with psycopg.connect(conf["pecker_dsn"], autocommit=True) as connection:
                connection.execute(
                    "insert into given (hostname) values (%s)",
                    (executor_of(app).hostname,),
                )

    return app


if CONF in os.environ:
    app = make(json.loads(os.environ[CONF]))
