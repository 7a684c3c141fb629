"""An app whose observers sleep, and write a line when they begin and when they end.

The lines go to a file that all hosts append to; the instants are of the monotonic
clock, which is the same for all processes of a machine.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, cast

import psycopg
from celery import Celery

from benchmarks.peers.environment import given
from celery_pecker.kernel.errors import LeaseLost
from celery_pecker.observers import Lease, Observers

CONNECTIONS = 20
"""Of one host, for its observers that write."""
PERMITS = 2
"""Guards that each observer asks for when it begins, and uses when it ends."""
HALFWAY = 0.05
"""Seconds between a guard and the write."""
WRITES = "pecker_bench_writes"
WRITE = "insert into pecker_bench_writes values (%s, %s, clock_timestamp())"

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
    _line("began", lease)
    try:
        await asyncio.Event().wait()
    finally:
        _line("ended", lease)


@observers.observer(unreachable="go_on")
async def stubborn(lease: Lease) -> None:
    """Sleep until it is ended, also while the database is away."""
    await idle.function(lease)


@observers.observer(stop_grace=30.0)
async def stale(lease: Lease) -> None:
    """Sleep; at its end, use guards that were asked for at its beginning.

    What a life asks for once it was ended is refused by its own host. These guards are
    from before: the database alone refuses them.
    """
    wire = await wires.any()
    permits = [wire.permit(lease) for _ in range(PERMITS)]
    _line("began", lease)
    try:
        await asyncio.Event().wait()
    finally:
        for permit in permits:
            _line(await wire.write(lease, permit), lease)
        _line("ended", lease)


@observers.observer(unreachable="go_on")
async def halfway(lease: Lease) -> None:
    """Write under a guard, over and over, with a rest between the two."""
    wire = await Wire.open()
    _line("began", lease)
    try:
        while True:
            permit = wire.permit(lease)
            _line(await wire.write(lease, permit, HALFWAY), lease)
            if wire.connection.closed:
                wire = await Wire.open()
    finally:
        _line("ended", lease)
        await wire.connection.close()


class Wire:
    """A connection, used by one observer at a time."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self.connection = connection
        self._lock = asyncio.Lock()

    @classmethod
    async def open(cls) -> Wire:
        """Return a new one."""
        words = f"-c search_path={app.conf.pecker_schema}"
        return cls(
            await psycopg.AsyncConnection.connect(app.conf.pecker_dsn, options=words)
        )

    def permit(self, lease: Lease) -> Awaitable[None]:
        """Return a guard that is asked for now, and reaches the database later."""
        return cast("Awaitable[None]", lease.guard(self.connection))

    async def write(
        self, lease: Lease, permit: Awaitable[None], rest: float = 0.0
    ) -> str:
        """Write one row under a guard; return what became of it."""
        async with self._lock:
            try:
                async with self.connection.transaction():
                    await permit
                    with suppress(asyncio.CancelledError):  # as bad code does
                        await asyncio.sleep(rest)
                    await self.connection.execute(WRITE, [lease.name, lease.epoch])
            except LeaseLost:
                return "refused"
            except psycopg.Error:
                return "broken"
            return "wrote"


class Wires:
    """Some connections, opened with the first observers that need one."""

    def __init__(self) -> None:
        self._made: list[asyncio.Task[Wire]] = []
        self._next = 0

    async def any(self) -> Wire:
        """Return one of them, in turn."""
        self._next += 1
        if len(self._made) < CONNECTIONS:
            self._made.append(asyncio.create_task(Wire.open()))
        return await asyncio.shield(self._made[self._next % len(self._made)])


wires = Wires()


def _line(what: str, lease: Lease) -> None:
    line = f"{what} {lease.name} {os.getpid()} {time.monotonic()} {lease.epoch}\n"
    os.write(lines, line.encode())
