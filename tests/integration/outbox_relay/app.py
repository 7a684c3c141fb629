"""An app with an outbox, as a project would have it."""

from __future__ import annotations

import os

import redis
from celery import Celery

from celery_pecker.outbox import Outbox

BROKER = os.environ.get("PECKER_TEST_BROKER", "redis://127.0.0.1:1/0")
QUEUE = os.environ.get("PECKER_TEST_QUEUE", "celery")

app = Celery("relayed", broker=BROKER, set_as_current=False)
app.conf.update(
    pecker_dsn=os.environ.get("PECKER_TEST_OUTBOX_DSN", "postgresql://127.0.0.1:1/x"),
    pecker_heartbeat_dir=os.environ.get("PECKER_TEST_FOLDER"),
    pecker_worker={"scheduler"},
    task_default_queue=QUEUE,
    broker_connection_retry_on_startup=False,
)
outbox = Outbox(app)


@app.task(name="app.work", shared=False)
def work(*_: object) -> None:
    """Count what ran."""
    with redis.Redis.from_url(BROKER) as client:
        client.incr(f"{QUEUE}:ran")
