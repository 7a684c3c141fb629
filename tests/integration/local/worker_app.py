"""The app of the workers under test: local tasks that write down when they ran."""

from __future__ import annotations

import json
import os
from pathlib import Path

from celery import Celery

from celery_pecker import deadline, runs
from celery_pecker.kernel.clock import SYSTEM, to_us
from celery_pecker.tasks import Pecker

FOLDER = Path(os.environ["PECKER_TEST_FOLDER"])
POLICY = json.loads(os.environ["PECKER_TEST_POLICY"])

app = Celery("locals")
app.conf.update(
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
    pecker_worker={"scheduler"},
    **json.loads(os.environ["PECKER_TEST_CONF"]),
)
pecker = Pecker(app)


@pecker.task(every=1.0, run="local", name="locals.tick", **POLICY)
def tick() -> str:
    """It ran, and had this much time left."""
    run, left = runs.current(), deadline.remaining()
    assert run is not None
    line = json.dumps(
        {"due_us": run.due_us, "at_us": to_us(SYSTEM.now()), "left": left}
    )
    journal = os.open(FOLDER / "journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(journal, f"{line}\n".encode())
    os.close(journal)
    return "ticked"
