"""Three mail servers, one of them broken; mails run until they are done."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import psycopg
from celery import Celery

import celery_pecker.worker
from celery_pecker.kernel.clock import pause
from celery_pecker.outbox import Outbox

BROKEN = "c"
FOLDER = Path(os.environ.get("PECKER_TEST_FOLDER", "."))

app = Celery("mails", broker=os.environ.get("PECKER_TEST_BROKER", "memory://"))
app.conf.update(
    pecker_worker={"scheduler", "outbox"},
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
)
app.conf.update(json.loads(os.environ.get("PECKER_TEST_CONF", "{}")))
celery_pecker.worker.connect()
outbox = Outbox(app)


def mark(mail: int, status: str) -> None:
    """Write what became of a mail; a second time changes nothing."""
    with psycopg.connect(app.conf.pecker_dsn, autocommit=True) as connection:
        connection.execute(
            "update mails set status = %s, runs = runs + 1 where id = %s",
            [status, mail],
        )


def deliver(mail: int, server: str) -> None:
    """Hand a mail to its server."""
    if server == BROKEN:
        message = f"mail server {server} is down"
        raise ConnectionError(message)
    mark(mail, "sent")


def tell_sender(mail: int, server: str) -> None:
    """Give up, and say so."""
    mark(mail, f"unsendable by {server}")


by_message: Any = app.task(name="by_message", outbox="until_done")(deliver)
here: Any = app.task(name="here", outbox="local")(deliver)
by_message.emergency(after=5)(tell_sender)
here.emergency(after=5)(tell_sender)


def first_dies(mail: int) -> None:
    """End the process without a word in the first run."""
    mark(mail, "begun")
    flag = FOLDER / f"died-{mail}"
    if not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    mark(mail, "sent")


def first_hangs(mail: int) -> None:
    """Go on for ever in the first run."""
    flag = FOLDER / f"hung-{mail}"
    if not flag.exists():
        flag.touch()
        while True:
            pause(0.1)
    mark(mail, "sent")


def first_waits(mail: int) -> None:
    """Wait in the first run until somebody opens a gate."""
    flag = FOLDER / f"waits-{mail}"
    first = not flag.exists()
    flag.touch()
    while first and not (FOLDER / f"gate-{mail}").exists():
        pause(0.05)
    mark(mail, "sent")


app.task(name="first_waits", outbox="local")(first_waits)
app.task(name="first_dies", outbox="until_done")(first_dies)
app.task(name="first_hangs", outbox="local")(first_hangs)
