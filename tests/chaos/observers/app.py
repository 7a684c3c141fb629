"""Observers that write under their guard, once a second, on hosts that may hang."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from typing import Any

import psycopg
from celery import Celery

from celery_pecker.kernel.clock import pause
from celery_pecker.kernel.errors import LeaseLost
from celery_pecker.observers import Lease, Observers

LEASE = 3.0
PERIOD = 1.0
"""Seconds between two writes of an observer."""
BLOCKED = 4.0
"""Seconds for which SIGUSR1 blocks the event loop: longer than a lease."""
WRITE = "insert into writes (name, epoch, at) values (%s, %s, clock_timestamp())"

app = Celery("observers-chaos", broker="memory://")
app.conf.update(
    pecker_dsn=os.environ.get("PECKER_TEST_DSN_OF_APP", "dbname=nowhere"),
    pecker_observers_lease=LEASE,
)
observers = Observers(app)
signal.signal(signal.SIGUSR1, lambda *_: pause(BLOCKED))


class Line:
    """One connection for all observers of a host; a new one where it broke."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._connection: psycopg.AsyncConnection[Any] | None = None

    async def write(self, lease: Lease) -> None:
        """Write one row under the guard."""
        async with self._lock:
            if self._connection is None or self._connection.closed:
                self._connection = await psycopg.AsyncConnection.connect(
                    app.conf.pecker_dsn
                )
            async with self._connection.transaction():
                held = lease.guard(self._connection)
                assert held is not None
                await held
                await self._connection.execute(WRITE, [lease.name, lease.epoch])


line = Line()


@observers.observer
async def writing(lease: Lease) -> None:
    """Write until it is ended; go on after an error of the connection."""
    while True:
        with suppress(psycopg.Error, LeaseLost):
            await line.write(lease)
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), PERIOD)
