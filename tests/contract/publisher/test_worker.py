"""A real Celery worker runs what the fast lane sends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import celery
from celery import Celery
from celery.beat import ScheduleEntry, Scheduler
from celery.schedules import schedule

from celery_pecker.brokers.publisher import Publisher
from celery_pecker.kernel.clock import SYSTEM, new_id
from celery_pecker.testing import eventually
from tests.contract.publisher.conftest import HEADER, Wire, dispatch
from tests.contract.publisher.lanes import Lane, lane_of

ROOT = Path(__file__).parents[3]
MARKED = celery.VERSION >= (5, 7)
"""Whether Celery's beat marks its messages."""


@contextmanager
def worker(environment: dict[str, str]) -> Iterator[None]:
    """A worker with a solo pool runs meanwhile."""
    command = ["celery", "-A", "tests.contract.publisher.worker_app", "worker"]
    options = ["--pool", "solo", "--loglevel", "WARNING", "--without-gossip"]
    process = subprocess.Popen(
        [sys.executable, "-m", *command, *options, "--without-mingle"],
        env={**os.environ, **environment},
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def test_a_worker_runs_it_as_it_runs_beat_s(wire: Wire, tmp_path: Path) -> None:
    """Arguments, id, limits, expiry and headers arrive in the task's request."""
    notes = tmp_path / "notes"
    queue = f"{wire.prefix}celery"
    app = Celery("worked", broker=wire.url, set_as_current=False)
    app.conf.update(wire.settings, task_default_queue=queue)
    publisher = Publisher(app, Scheduler(app, lazy=True), timeout=2)
    options = {"soft_time_limit": 5, "time_limit": 9, "headers": {"own": "%s"}}
    publisher.prepare(
        ScheduleEntry(
            name="one",
            task="contract.note",
            schedule=schedule(60),
            args=("ü", 1),
            kwargs={"k": [None]},
            options=options,
            app=app,
        )
    )
    expires = SYSTEM.now() + timedelta(hours=1)
    batch = [dispatch("one", expires=expires), dispatch("one")]
    assert lane_of(publisher, "one").lane is Lane.FAST
    publisher.publish(batch, str(new_id()))
    publisher.close()
    environment = {
        "CONTRACT_BROKER": wire.url,
        "CONTRACT_QUEUE": queue,
        "CONTRACT_OPTIONS": json.dumps(wire.settings.get("broker_transport_options")),
        "CONTRACT_NOTES": str(notes),
    }
    with worker(environment):

        def lines() -> list[str]:
            found = notes.read_text().splitlines() if notes.exists() else []
            return found if len(found) == len(batch) else []

        told = [json.loads(line) for line in eventually(lines, timeout=40)]

    for slot, line in zip(batch, told, strict=True):
        assert {line["id"], line["root"], line["correlation"]} == {slot.task_id}
        assert (line["args"], line["kwargs"]) == (["ü", 1], {"k": [None]})
        assert line["limits"] == [9, 5]
        assert (line["pecker"], line["own"]) == (HEADER, "%s")
        assert line["beat"] == (True if MARKED else None)
    assert [line["expires"] for line in told] == [expires.isoformat(), None]
