"""Every order in which transactions of one statement each can begin and commit.

A statement of PostgreSQL is atomic but not alone: its snapshot is taken when it begins,
and it may have to wait for the row of another that has not committed. So a schedule is
an order of events, *begin* (the statement is sent, and has ended or waits for a lock)
and *commit*, of two or three transactions. All orders are tried. One in which a
transaction would have to commit while it waits cannot happen, and is left out: what it
would lead to is another order of the list.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg import pq

BLOCKED = "select cardinality(pg_blocking_pids(%s)) > 0"
POLL = 0.0005
"""Seconds between two questions whether a statement waits; no result hangs on it."""


Answer = list[list[bytes | None]]


class Step(NamedTuple):
    """One statement of one actor, and what is to be done with its answer."""

    name: str
    query: bytes
    params: dict[str, Any]
    answered: Callable[[Answer], None]


class Event(NamedTuple):
    """What happens to which actor."""

    actor: int
    commits: bool


def orders(actors: int) -> Iterator[tuple[Event, ...]]:
    """Give each order of events in which the actors begin by number.

    Actors that begin in another order are other actors: the caller tries all of them.
    """

    def further(
        done: tuple[Event, ...], begun: int, ended: frozenset[int]
    ) -> Iterator[tuple[Event, ...]]:
        if len(done) == 2 * actors:
            yield done
            return
        if begun < actors:
            yield from further((*done, Event(begun, False)), begun + 1, ended)
        for actor in range(begun):
            if actor not in ended:
                event = Event(actor, True)
                yield from further((*done, event), begun, ended | {actor})

    return further((), 0, frozenset())


class Actor:
    """A connection that runs one statement in a transaction of its own."""

    def __init__(self, dsn: str) -> None:
        # Parameters are bound by the client: a statement is one message, which can be
        # sent and left alone.
        self._connection = psycopg.connect(
            dsn, autocommit=True, cursor_factory=psycopg.ClientCursor
        )
        self._cursor = psycopg.ClientCursor(self._connection)
        self._pgconn = self._connection.pgconn
        self._step: Step | None = None
        self.waits = False

    @property
    def pid(self) -> int:
        """The server process of the connection."""
        return self._pgconn.backend_pid

    def begin(self, step: Step) -> None:
        """Send the statement; do not wait for it."""
        self._step, self.waits = step, True
        text = self._cursor.mogrify(step.query, step.params)
        self._pgconn.send_query(b"begin; " + text.encode())

    def look(self, seconds: float) -> bool:
        """Return whether the statement has ended; wait so long for it at most."""
        if self.waits and select.select([self._pgconn.socket], [], [], seconds)[0]:
            self._pgconn.consume_input()
        if self.waits and not self._pgconn.is_busy():
            rows = self._drain()
            self.waits = False
            if self._step is not None:
                self._step.answered(rows)
        return not self.waits

    def end(self, how: bytes = b"commit") -> None:
        """Commit or roll back."""
        self._pgconn.send_query(how)
        self._drain()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _drain(self) -> Answer:
        rows: Answer = []
        while (result := self._pgconn.get_result()) is not None:
            if result.status == pq.ExecStatus.FATAL_ERROR:
                raise AssertionError(result.error_message.decode())
            rows += [
                [result.get_value(row, column) for column in range(result.nfields)]
                for row in range(result.ntuples)
            ]
        return rows


class Interleaver:
    """Plays schedules over one connection for each actor."""

    def __init__(self, dsn: str, actors: int) -> None:
        self._actors = [Actor(dsn) for _ in range(actors)]
        self._monitor = psycopg.connect(dsn, autocommit=True)

    def close(self) -> None:
        """Close all connections."""
        self._monitor.close()
        for actor in self._actors:
            actor.close()

    def play(self, steps: Sequence[Step], order: Sequence[Event]) -> bool:
        """Play the steps in this order; return False if it cannot happen."""
        actors = self._actors[: len(steps)]
        begun: list[Actor] = []
        ended: set[Actor] = set()
        for number, commits in order:
            actor = actors[number]
            if not commits:
                actor.begin(steps[number])
                begun.append(actor)
            elif actor.waits:
                break
            else:
                actor.end()
                ended.add(actor)
            self._settle([one for one in begun if one.waits])
        else:
            return True
        while open_ones := [one for one in begun if one not in ended]:
            self._settle([one for one in open_ones if one.waits])
            for actor in [one for one in open_ones if not one.waits]:
                actor.end(b"rollback")
                ended.add(actor)
        return False

    def _settle(self, waiting: Sequence[Actor]) -> None:
        """Wait until each statement has ended, or waits for a transaction's end."""
        for actor in waiting:
            while not actor.look(POLL):
                row = self._monitor.execute(BLOCKED, [actor.pid]).fetchone()
                if row and row[0]:
                    break
