"""Observers that write under their guard, on hosts that say who runs and may hang."""

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
from celery_pecker.observers.hosts import host

OBSERVERS = int(os.environ.get("PECKER_CHAOS_OBSERVERS", "200"))
LEASE = 3.0
PERIOD = max(1.0, OBSERVERS / 200)
"""Seconds between two writes of an observer: 200 of all of them in a second at most."""
CALLED = max(1.0, OBSERVERS / 1_000)
"""Seconds after which a host says who runs. A busy machine manages that, where it is
late with thousands of writes."""
REST = 0.5
"""Seconds between the request for a guard and its use."""
LINES = 4
"""Connections of a host."""
BLOCKED = 4.0
"""Seconds for which SIGUSR1 blocks the event loop: longer than a lease."""
CALL = "insert into called (at, names) values (clock_timestamp(), %s)"
WRITE = "insert into writes (name, epoch, at) values (%s, %s, clock_timestamp())"

app = Celery("observers-chaos", broker="memory://")
app.conf.update(
    pecker_dsn=os.environ.get("PECKER_TEST_DSN_OF_APP", "dbname=nowhere"),
    pecker_observers_lease=LEASE,
)
observers = Observers(app)
host.HISTORY = 10_000_000
signal.signal(signal.SIGUSR1, lambda *_: pause(BLOCKED))


class Line:
    """One connection for many observers of a host; a new one where it broke."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._connection: psycopg.AsyncConnection[Any] | None = None

    async def write(self, lease: Lease, rest: float) -> None:
        """Write one row under a guard that was asked for a while ago."""
        connection = await self._open()
        held: Any = lease.guard(connection)
        try:
            await pass_by(rest)
            async with self._lock, connection.transaction():
                await held
                await connection.execute(WRITE, [lease.name, lease.epoch])
        finally:
            held.close()

    async def call(self, names: list[str]) -> None:
        """Write who runs on this host."""
        connection = await self._open()
        async with self._lock, connection.transaction():
            await connection.execute(CALL, [names])

    async def _open(self) -> psycopg.AsyncConnection[Any]:
        async with self._lock:
            if self._connection is None or self._connection.closed:
                self._connection = await psycopg.AsyncConnection.connect(
                    app.conf.pecker_dsn
                )
            return self._connection


lines = [Line() for _ in range(LINES)]
writes: set[asyncio.Task[None]] = set()
running: dict[str, int] = {}
"""Epochs by name."""


@observers.observer
async def writing(lease: Lease) -> None:
    """Write until it is ended; what was begun is written although it was ended.

    Each write outlives its life, and asks for its guard before a rest: when a host
    thaws, or an observer begins anew on its host, the guards of the life before are
    already past their own host, and the database alone can refuse them.
    """
    if not running:
        keep(asyncio.create_task(call()))
    running[lease.name] = lease.epoch
    rest = 0.0
    try:
        while True:
            await asyncio.shield(keep(asyncio.create_task(attempt(lease, rest))))
            rest = REST
            await pass_by(PERIOD - REST)
    finally:
        if running[lease.name] == lease.epoch:
            del running[lease.name]


def keep(task: asyncio.Task[None]) -> asyncio.Task[None]:
    """Have a task outlive the observer that made it."""
    writes.add(task)
    task.add_done_callback(writes.discard)
    return task


async def call() -> None:
    """Say who runs here, until nobody does."""
    line = Line()
    while running:
        with suppress(psycopg.Error):
            await line.call([*running])
        await pass_by(CALLED)


async def attempt(lease: Lease, rest: float) -> None:
    """Write; an error of the connection, or a refusal, is the end of this write."""
    with suppress(psycopg.Error, LeaseLost):
        await lines[lease.epoch % LINES].write(lease, rest)


async def pass_by(seconds: float) -> None:
    """Let so many seconds pass."""
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), seconds)
