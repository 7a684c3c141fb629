"""The app of the workers under test: tasks that write down when they ran."""

from __future__ import annotations

import json
import os
from pathlib import Path

from celery import Celery

import celery_pecker.worker
from celery_pecker.kernel.clock import pause

FOLDER = Path(os.environ["PECKER_TEST_FOLDER"])

app = Celery("guarded")
app.conf.update(
    pecker_dsn="postgresql://nobody@nowhere/never_asked",
    task_ignore_result=True,
    worker_prefetch_multiplier=4,
    broker_connection_retry_on_startup=True,
)
app.conf.update(json.loads(os.environ["PECKER_TEST_CONF"]))
if "PECKER_TEST_UNGUARDED" in os.environ:
    celery_pecker.worker.RedisGuardStep.include_if = lambda *_: False  # type: ignore[method-assign]
celery_pecker.worker.connect()


def note(line: str) -> None:
    """The line is in the journal, whole."""
    journal = os.open(FOLDER / "journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(journal, f"{line}\n".encode())
    os.close(journal)


def hold(name: str) -> None:
    """The task went on until the test opened its gate."""
    note(f"began {name}")
    while not (FOLDER / f"gate-{name}").exists():
        pause(0.02)
    note(f"ended {name}")


@app.task(name="mark")
def mark(name: str) -> None:
    """It ran."""
    note(f"ran {name}")


app.task(name="hold")(hold)
app.task(name="mark_late", acks_late=True)(mark.run)
app.task(name="hold_late", acks_late=True)(hold)
