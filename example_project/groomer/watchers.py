"""One observer watches each media server: a job without an end."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import psycopg

from celery_pecker.observers import Observers, Retry
from example_project.groomer import queries, wire
from example_project.groomer.app import SERVICE_DSN, observers
from example_project.groomer.tasks import PING

KIND = "watch_server"
LOOK = 0.25
"""Seconds between two looks at a media server."""


@observers.observer(name=KIND, retry=Retry(None, (0.5, 1, 5)))
async def watch_server(lease: Any, server: int, host: str, port: int) -> None:
    """Look at a media server and record what is seen, until this life is to end.

    Each look is written in a transaction that holds the observer: a host that was
    frozen and wakes up writes nothing beside the one that has taken over.

    Raises:
        LeaseLost: another life has begun.
    """
    async with await psycopg.AsyncConnection.connect(
        SERVICE_DSN, autocommit=True
    ) as connection:
        while True:
            seen = {
                "server": server,
                "epoch": lease.epoch,
                "pid": os.getpid(),
                "answered": await _answers((host, port)),
            }
            async with connection.transaction():
                await lease.guard(connection)
                await connection.execute(queries.query("looked"), seen)
            await asyncio.sleep(LOOK)


def add_server(
    connection: queries.Connection, known: Observers, server: int, address: wire.Address
) -> None:
    """Enter a media server and start its observer, in one transaction.

    Args:
        connection: to the groomer's tables; a transaction that is open is joined.
        known: observers of an app of the same database. It may be another app: the
            kind is named, and a host has declared it.
        server: its number.
        address: where it listens.

    Raises:
        ObserverRefused: no host has ever declared the kind.
    """
    host, port = address
    with connection.transaction():
        values: dict[str, Any] = {"server": server, "host": host, "port": port}
        connection.execute(queries.query("add_server"), values)
        known.start(KIND, f"server-{server}", connection=connection, **values)


async def _answers(address: wire.Address) -> bool:
    """Return whether a media server answers in time."""
    try:
        answer = await asyncio.wait_for(wire.aask(address, {"ping": True}), PING)
    except OSError:
        return False
    return bool(answer.get("ok"))
