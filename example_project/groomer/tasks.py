"""The tasks: find dead media servers, sweep up after races, invite peers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg

from celery_pecker import deadline
from example_project.groomer import queries, wire
from example_project.groomer.app import GATEWAY, SERVICE_DSN, app, outbox
from example_project.groomer.queries import Current, Invited

PING = 0.4
"""Seconds in which a media server answers."""
DEAD = 1.5
"""Seconds without an answer after which a server's rooms get another one."""
TOGETHER = 25
"""Rooms of one transaction: their order is that of all who switch."""
KEEP = 3_600.0
"""Seconds after which a peer that has left is archived."""


@app.task(name="example_project.groomer.tasks.watch")
def watch() -> int:
    """Give the rooms of servers that do not answer new sessions; return how many."""
    with psycopg.connect(SERVICE_DSN, autocommit=True) as connection:
        servers = connection.execute(queries.query("servers")).fetchall()
        with ThreadPoolExecutor(max(1, len(servers))) as pool:
            answers = list(pool.map(_answers, servers))
        living = [row[0] for row, one in zip(servers, answers, strict=True) if one]
        dead = {"living": living, "dead": DEAD}
        rooms = connection.execute(queries.query("answered"), dead).fetchall()
        moved = 0
        for start in range(0, len(rooms) if living else 0, TOGETHER):
            deadline.check()
            moved += _switch(connection, rooms[start : start + TOGETHER], living)
    return moved


@app.task(name="example_project.groomer.tasks.sweep")
def sweep() -> int:
    """Invite whom a race has left behind, and archive who has left; return how many."""
    with psycopg.connect(SERVICE_DSN, autocommit=True) as connection:
        with connection.transaction():
            invited = queries.sweep(connection)
            _send(connection, invited)
        queries.archive(connection, KEEP)
    return len(invited)


@app.task(
    name="example_project.groomer.tasks.invite",
    outbox=True,
    autoretry_for=(OSError, psycopg.OperationalError),
    max_retries=5,
    default_retry_delay=1,
)
def invite(peer: int, epoch: int) -> None:
    """Send a peer its invitation, unless it has it or a newer one is on its way."""
    connection = _connection()
    with connection.transaction():
        values = {"peer": peer, "epoch": epoch}
        row = connection.execute(queries.query("invitation"), values).fetchone()
        if row is not None:
            session, server = row
            place = Current(epoch, session, server)._asdict()
            wire.ask((wire.HOST, GATEWAY), {"invite": peer, **place})


_of_thread = threading.local()


def _connection() -> psycopg.Connection[Any]:
    """Return the thread's own connection; a new one where there is none that works."""
    connection = getattr(_of_thread, "connection", None)
    if connection is None or connection.closed:
        connection = psycopg.connect(SERVICE_DSN, autocommit=True)
        _of_thread.connection = connection
    return connection


def disconnect() -> None:
    """Close the calling thread's connection, if it has one."""
    connection = getattr(_of_thread, "connection", None)
    if connection is not None:
        connection.close()


def _answers(row: Sequence[Any]) -> bool:
    """Return whether a media server answers in time."""
    _, host, port = row
    try:
        return bool(wire.ask((host, port), {"ping": True}, PING).get("ok"))
    except OSError:
        return False


def _other(living: Sequence[int], dead: int, room: int) -> int:
    """Return another server, each for about as many rooms."""
    others = [one for one in living if one != dead] or [dead]
    return others[room % len(others)]


def _switch(
    connection: psycopg.Connection[Any],
    rooms: Sequence[Sequence[int]],
    living: Sequence[int],
) -> int:
    """Give rooms their next sessions, with the invitations, or leave them to rivals."""
    switched, invited = 0, []
    with connection.transaction():
        for room, epoch, server in rooms:
            following = epoch + 1
            other = _other(living, server, room)
            new = Current(following, f"{room}/{following}", other)
            peers = queries.switch(connection, room, new)
            switched += peers is not None
            invited += peers or []
        _send(connection, invited)
    return switched


def _send(connection: psycopg.Connection[Any], invited: Sequence[Invited]) -> None:
    """Record the invitations in the transaction that made them."""
    if invited:
        rows = [(one.peer, one.epoch) for one in invited]
        outbox.send_many(invite, rows, connection=connection)
