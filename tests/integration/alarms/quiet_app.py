"""An app with no setting of alarms, one of whose entries fails."""

from __future__ import annotations

import os

from celery import Celery

import celery_pecker.worker
from celery_pecker.alarms.kinds import Failing, Silent, Terms

if "PECKER_TEST_ALARMS_DSN" in os.environ:  # a process of its own
    Silent.terms = Failing.terms = Terms(after=1.0)  # a minute, else

app = Celery("quiet", broker=os.environ.get("PECKER_TEST_BROKER", "memory://"))
app.conf.update(
    task_default_queue=os.environ.get("PECKER_TEST_QUEUE", "celery"),
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
    pecker_dsn=os.environ.get("PECKER_TEST_ALARMS_DSN"),
    pecker_worker={"scheduler"},
    beat_schedule={
        "fails": {"task": "quiet.fails", "schedule": 0.5},
        "stuck": {"task": "quiet.nothing", "schedule": 0.5},
    },
)
celery_pecker.worker.connect()


@app.task(name="quiet.fails")
def fails() -> None:
    """Fail."""
    message = "no such table"
    raise RuntimeError(message)


@app.task(name="quiet.nothing")
def nothing() -> None:
    """Do nothing."""
