"""An app for a real worker: its task writes down what it was run with."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from celery import Celery

app = Celery("worked", broker=os.environ["CONTRACT_BROKER"])
app.conf.update(
    task_default_queue=os.environ["CONTRACT_QUEUE"],
    broker_transport_options=json.loads(os.environ["CONTRACT_OPTIONS"]) or {},
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
)


@app.task(name="contract.note", bind=True, ignore_result=True)
def note(self: Any, /, *args: object, **kwargs: object) -> None:
    """A line tells what was run, and by which message."""
    request = self.request
    line = {
        "id": request.id,
        "root": request.root_id,
        "correlation": request.correlation_id,
        "args": args,
        "kwargs": kwargs,
        "expires": request.expires,
        "limits": request.timelimit,
        "pecker": request.headers["pecker"],
        "beat": request.headers.get("celery_beat_task"),
        "own": request.headers.get("own"),
    }
    with Path(os.environ["CONTRACT_NOTES"]).open("a") as notes:
        notes.write(json.dumps(line) + "\n")
