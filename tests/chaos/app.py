"""The app under chaos: all of its configuration comes as JSON in the environment."""

from __future__ import annotations

import json
import logging
import os

from celery import Celery, Task

from celery_pecker.brokers.publisher import connection

if os.environ.get("PECKER_CHAOS_QUIET"):
    # The broker goes away in the milliseconds after its sign of life: not asking for
    # one is the only way to hit that window every time.
    connection.QUIET = float(os.environ["PECKER_CHAOS_QUIET"])

logger = logging.getLogger("chaos")

app = Celery(os.environ.get("PECKER_CHAOS_APP", "chaos"))
app.conf.update(json.loads(os.environ["PECKER_CHAOS_CONF"]))


@app.task(bind=True, name="chaos.tick")
def tick(self: Task[..., None], *_: object) -> None:
    """The log says which slot ran."""
    header = (self.request.headers or {}).get("pecker", {})
    logger.info("ran %s %s", header.get("name"), header.get("due_at"))
