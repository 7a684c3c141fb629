"""An app without a beat: its workers are its schedulers, and write down what ran."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from celery import Celery

from celery_pecker import deadline
from celery_pecker.kernel.clock import pause
from celery_pecker.runs import current

FOLDER = Path(os.environ.get("PECKER_TEST_FOLDER", "."))

app = Celery("timed", broker=os.environ.get("PECKER_TEST_BROKER", "memory://"))
app.conf.update(
    pecker_worker={"scheduler"},
    task_ignore_result=True,
    result_expires=None,  # or Celery adds an entry of its own
    broker_connection_retry_on_startup=True,
    beat_schedule={
        "sent": {"task": "ran", "schedule": 1.0},
        "sent too": {"task": "ran", "schedule": 1.0, "pecker": {"timeout": 0.9}},
        "here": {"task": "ran", "schedule": 1.0, "pecker": {"run": "local"}},
    },
)
app.conf.update(json.loads(os.environ.get("PECKER_TEST_CONF", "{}")))
for entry in app.conf.beat_schedule.values():
    if "odd" in entry.get("kwargs", {}):
        entry["kwargs"]["odd"] = object()  # the settings come as JSON, which has none


def note() -> None:
    """Write the slot into the journal, whole."""
    run = current()
    assert run is not None
    journal = os.open(FOLDER / "journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(journal, f"{json.dumps([run.name, run.due_us, os.getpid()])}\n".encode())
    os.close(journal)


@app.task(name="ran")
def ran() -> None:
    """The slot is in the journal."""
    note()


@app.task(name="hangs")
def hangs() -> None:
    """The slot is in the journal once something has ended it."""
    try:
        pause(60)
    finally:
        note()


@app.task(name="fails")
def fails() -> None:
    """It always raises."""
    message = "no such table"
    raise RuntimeError(message)


@app.task(name="retries", bind=True, max_retries=None)
def retries(self: Any) -> None:
    """It never comes to an end."""
    raise self.retry(countdown=3600)


@app.task(name="takes")
def takes(odd: object) -> None:
    """It has an argument."""


@app.task(name="exits")
def exits() -> None:
    """It takes itself for a script."""
    sys.exit(3)


@app.task(name="overruns")
def overruns() -> None:
    """It is still going at its deadline."""
    while True:
        pause(0.01)
        deadline.check()  # not every pool can interrupt a thread


@app.task(name="dies")
def dies() -> None:
    """Its process ends without a word."""
    os.kill(os.getpid(), signal.SIGKILL)
