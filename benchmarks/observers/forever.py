"""A Celery task that never ends, acknowledged late: what people write for watching.

Each run writes a line with its process and the instant, when it begins and then twice a
second, so that runs of one message at the same time are seen.
"""

from __future__ import annotations

import os
import time

from celery import Celery

from benchmarks.peers.environment import given

TASK = "bench.forever"
PERIOD = 0.5
"""Seconds between two lines of a run."""
SWEEP = 2.0
"""Seconds between two looks of a worker at what is not acknowledged."""

app = Celery("forever", broker=given("BROKER", "memory://"))
app.conf.update(
    task_default_queue=given("QUEUE", "bench"),
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
)
if given("VISIBLE"):
    # Workers look for such messages every 100 s otherwise, and restore them then.
    app.conf.broker_transport_options = {
        "visibility_timeout": float(given("VISIBLE")),
        "unacked_restore_interval": SWEEP,
        "unacked_restore_throttle": 1,
    }


@app.task(name=TASK, ignore_result=True)
def forever() -> None:
    """Run until the process ends."""
    lines = os.open(given("LINES", os.devnull), os.O_WRONLY | os.O_APPEND)
    began = time.monotonic()
    while True:
        line = f"runs {began} {os.getpid()} {time.monotonic()}\n"
        os.write(lines, line.encode())
        time.sleep(PERIOD)
