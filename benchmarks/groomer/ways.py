"""Three ways to apply reports: under a lock on the room, one by one, in batches."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

import psycopg

from benchmarks.groomer.stream import Room, server, session
from example_project.groomer import queries
from example_project.groomer.queries import Current
from example_project.groomer.states import Report
from example_project.store import statements

Connection = psycopg.Connection[Any]

LOCK_SCHEMA = """
create table lock_rooms (room_id int primary key, session_id text not null);
create table lock_rms (
    session_id text not null, peer_id int not null, room_id int not null,
    rank smallint not null, changed_at timestamptz not null default clock_timestamp(),
    primary key (session_id, peer_id)
) with (fillfactor = 70);
create index on lock_rms (room_id, peer_id)
"""
LOCK = "select 1 from lock_rooms where room_id = %(room)s for update"
FIRST = """
update lock_rms set rank = greatest(rank, %(rank)s), changed_at = clock_timestamp()
where session_id = %(session)s and peer_id = %(peer)s
"""
SECOND = """
update lock_rms set session_id = %(session)s, rank = greatest(rank, %(rank)s),
    changed_at = clock_timestamp()
where session_id = 'unknown' and peer_id = %(peer)s
"""
THIRD = """
insert into lock_rms (session_id, peer_id, room_id, rank)
values (%(session)s, %(peer)s, %(room)s, %(rank)s) on conflict do nothing
"""


class Way(Protocol):
    """How reports and switches reach the tables."""

    batch: int
    """Reports that one call takes."""
    connections: int

    def prepare(self, connection: Connection, room: Room) -> None:
        """Make the room, on its first media server."""
        ...

    def apply(self, connection: Connection, reports: Sequence[Report]) -> None:
        """Apply reports."""
        ...


class RoomLock:
    """The article's own: whoever reports holds the room until the commit."""

    batch = 1
    connections = 40

    def prepare(self, connection: Connection, room: Room) -> None:
        """Make the row that is locked."""
        connection.execute(
            "insert into lock_rooms values (%s, %s)",
            [room.number, session(room.number, 1)],
        )

    def apply(self, connection: Connection, reports: Sequence[Report]) -> None:
        """Lock the room, then try three statements until one meets a row."""
        [one] = reports
        values = {
            "room": one.peer // 100,
            "session": one.session,
            "peer": one.peer,
            "rank": int(one.rank),
        }
        with connection.transaction():
            connection.execute(LOCK, values)
            for statement in (FIRST, SECOND, THIRD):
                if connection.execute(statement, values).rowcount:
                    break


class OneByOne:
    """The groomer's statement, for each report by itself."""

    batch = 1
    connections = 40

    def prepare(self, connection: Connection, room: Room) -> None:
        """Open both room sessions, so that all of its reports are believed."""
        for epoch in (1, 2):
            new = Current(
                epoch, session(room.number, epoch), server(room.number, epoch)
            )
            queries.switch(connection, room.number, new)

    def apply(self, connection: Connection, reports: Sequence[Report]) -> None:
        """Apply them by one statement."""
        queries.apply(connection, reports)


class InBatches(OneByOne):
    """The same statement for a hundred reports, over two connections."""

    batch = 100
    connections = 2


WAYS: dict[str, type[Way]] = {
    "a lock on the room": RoomLock,
    "single statements": OneByOne,
    "batches of 100": InBatches,
}


def make_tables(connection: Connection) -> None:
    """Make the tables of all ways in the schema of the connection."""
    connection.execute(LOCK_SCHEMA)
    connection.execute(statements()["groomer_schema"].encode())


def drop_schema(dsn: str, schema: str) -> None:
    """Remove what a trial has made."""
    with suppress(psycopg.Error), psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"drop schema if exists {schema} cascade".encode())
