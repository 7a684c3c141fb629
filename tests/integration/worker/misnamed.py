"""An app with an entry whose task is misspelt."""

from __future__ import annotations

import json
import os

from celery import Celery

app = Celery("misnamed", broker=os.environ["PECKER_TEST_BROKER"])
app.conf.update(
    task_ignore_result=True,
    beat_schedule={
        "nightly": {"task": "proj.rapport", "schedule": 3600.0},
        "hourly": {"task": "proj.report", "schedule": 3600.0},
    },
)
app.conf.update(json.loads(os.environ["PECKER_TEST_CONF"]))


@app.task(name="proj.report")
def report() -> None:
    """It ran."""
