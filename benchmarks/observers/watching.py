"""An app whose observers sleep, and write a line when they begin and when they end.

The lines go to a file that all hosts append to; the instants are of the monotonic
clock, which is the same for all processes of a machine.
"""

from __future__ import annotations

import asyncio
import os
import time

from celery import Celery

from benchmarks.peers.given import given
from celery_pecker.observers import Lease, Observers

app = Celery("bench-observers", broker="memory://")
app.conf.update(
    pecker_dsn=given("DSN", "dbname=nowhere"),
    pecker_schema=given("SCHEMA", "public"),
    pecker_app="bench",
    pecker_observers_lease=float(given("LEASE", "5")),
)
observers = Observers(app)
lines = os.open(given("LINES", os.devnull), os.O_WRONLY | os.O_APPEND)


@observers.observer
async def idle(lease: Lease) -> None:
    """Sleep until it is ended."""
    _write("began", lease)
    try:
        await asyncio.Event().wait()
    finally:
        _write("ended", lease)


def _write(what: str, lease: Lease) -> None:
    line = f"{what} {lease.name} {os.getpid()} {time.monotonic()}\n"
    os.write(lines, line.encode())
