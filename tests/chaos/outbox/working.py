"""A worker that runs rows of an outbox, and strikes itself where it is told to.

    python -m tests.chaos.outbox.working DSN BROKER QUEUE FOLDER

Each run writes its task and attempt before the work, and that it has ended after it.
"""

from __future__ import annotations

import os
import random
from typing import Any

import psycopg
from celery import Celery

import celery_pecker.worker
from celery_pecker.brokers.publisher.stored_messages import StoredPublisher
from celery_pecker.outbox import Outbox
from celery_pecker.outbox.runs import holds
from celery_pecker.outbox.runs.rows import Rows
from tests.chaos.outbox.strikes import Strikes
from tests.told import told

HOLD = 2.0
"""Seconds; short, so that a run waits less."""
MOST_HOLD = 60.0
"""Seconds. Where workers are slower than rows are pushed anew, messages that start
nothing fill the queue: with 4 s a busy machine had a hundred of each row, and the
outbox was not empty within ten minutes."""
FAILS = 0.1
"""The part of the runs that fail by themselves."""
MODES = {"chaos.message": "until_done", "chaos.here": "local"}


def main(dsn: str, broker: str, queue: str, folder: str) -> None:
    """Work until somebody ends the process."""
    holds.LONGEST = MOST_HOLD
    app = Celery("working", broker=broker)
    app.conf.update(
        pecker_dsn=dsn,
        pecker_worker={"scheduler", "outbox"},
        pecker_outbox_lease=HOLD,
        pecker_outbox_backoff=HOLD,
        pecker_outbox_attempts=10_000,
        pecker_outbox_history=10_000_000,
        pecker_heartbeat_dir=folder,
        task_default_queue=queue,
        task_ignore_result=True,
        broker_connection_max_retries=None,
        # Its queue may outlive a connection that was reset, and ends the worker then.
        worker_enable_remote_control=False,
        broker_connection_retry_on_startup=True,
    )
    celery_pecker.worker.connect()
    Outbox(app)
    strikes, chance = Strikes(folder), random.Random()

    def work(self: Any, _number: int) -> None:
        run = [self.request.id, self.request.retries + 1]
        strikes.come_to("before run")
        with psycopg.connect(dsn, autocommit=True, connect_timeout=2) as connection:
            connection.execute("insert into runs values (%s, %s)", run)
            if chance.random() < FAILS:
                message = "as it happens"
                raise RuntimeError(message)
            connection.execute(
                "update runs set ended = true where task_id = %s and attempt = %s", run
            )
        strikes.come_to("after run")

    for name, mode in MODES.items():
        app.task(name=name, bind=True, outbox=mode)(work)
    strikes.watch(Rows, "claim_pushes", "start", "take", "end", "fail")
    strikes.watch(StoredPublisher, "push")
    app.worker_main(
        [
            *("worker", "-P", "threads", "-c", "4", "-l", "INFO"),
            *("-n", f"chaos-{os.getpid()}@here"),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        ]
    )


if __name__ == "__main__":
    main(*told())
