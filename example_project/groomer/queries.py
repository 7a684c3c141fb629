"""The groomer's statements, each in one round trip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import psycopg

from example_project.groomer.states import Report
from example_project.store import statements

Connection = psycopg.Connection[Any]

SWEPT = 1_000
"""Peers of one sweep at most."""
SWEPT_WITHIN = 3_600.0
"""Seconds after a room's switch for which a sweep looks at it."""


class Current(NamedTuple):
    """A room session that is the current one of its room."""

    epoch: int
    session: str
    server: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of an offer: it passes, or the peer is sent to the current one."""

    passes: bool
    current: Current | None
    """None: there is no such room."""


class Invited(NamedTuple):
    """A peer that is to be invited into the session of this epoch."""

    peer: int
    room: int
    epoch: int


def query(name: str) -> bytes:
    """Return a labelled statement of the groomer."""
    return statements()[f"groomer_{name}"].encode()


def apply_statement(reports: Sequence[Report]) -> tuple[bytes, dict[str, Any]]:
    """Return the statement that applies these reports, and its parameters."""
    if len(reports) == 1:
        [one] = reports
        return query("apply_one"), {
            "server": one.server,
            "session": one.session,
            "peer": one.peer,
            "rank": int(one.rank),
        }
    return query("apply"), {
        "server": [one.server for one in reports],
        "session": [one.session for one in reports],
        "peer": [one.peer for one in reports],
        "rank": [int(one.rank) for one in reports],
    }


def offer_columns(offers: Sequence[tuple[int, str, int]]) -> dict[str, Any]:
    """Return the parameters for offers, each of a room, a session and a peer."""
    return {
        "room": [room for room, _, _ in offers],
        "session": [session for _, session, _ in offers],
        "peer": [peer for _, _, peer in offers],
    }


def verdict_of(row: Sequence[Any]) -> Verdict:
    """Return what an answered row of the offers says."""
    passes, epoch, session, server = row
    current = None if epoch is None else Current(epoch, session, server)
    return Verdict(passes, current)


def apply(connection: Connection, reports: Sequence[Report]) -> tuple[int, int]:
    """Apply reports; return how many rows moved and how many were not believed."""
    cursor = connection.execute(*apply_statement(reports))
    moved, believed = cursor.fetchone() or (0, 0)
    return moved, len(reports) - believed


def offer(
    connection: Connection, offers: Sequence[tuple[int, str, int]]
) -> list[Verdict]:
    """Judge offers, each of a room, a session and a peer; in their order."""
    cursor = connection.execute(query("offer"), offer_columns(offers))
    return [verdict_of(row) for row in cursor.fetchall()]


def join(
    connection: Connection, wishes: Sequence[tuple[int, int]]
) -> dict[int, Current]:
    """Take peers in, each wish a room and a peer; return where each is to go."""
    cursor = connection.execute(
        query("join"),
        {"room": [room for room, _ in wishes], "peer": [peer for _, peer in wishes]},
    )
    return {peer: Current(*rest) for peer, *rest in cursor.fetchall()}


def current(connection: Connection, room: int) -> Current | None:
    """Return the current room session; None: there is no such room."""
    row = connection.execute(query("current"), {"room": room}).fetchone()
    return None if row is None else Current(*row)


def switch(connection: Connection, room: int, new: Current) -> list[Invited] | None:
    """Make a session the current one; return whom this transaction has to invite.

    None: somebody else has given out this epoch, or there is a gap before it.
    """
    cursor = connection.execute(
        query("switch"),
        {
            "room": room,
            "epoch": new.epoch,
            "session": new.session,
            "server": new.server,
        },
    )
    switched, peers = cursor.fetchone() or (0, [])
    return [Invited(peer, room, new.epoch) for peer in peers] if switched else None


def sweep(
    connection: Connection, *, limit: int = SWEPT, within: float = SWEPT_WITHIN
) -> list[Invited]:
    """Mark whom races left behind; return whom this transaction has to invite."""
    cursor = connection.execute(query("sweep"), {"limit": limit, "within": within})
    return [Invited(*row) for row in cursor.fetchall()]


def archive(connection: Connection, keep: float, limit: int = SWEPT) -> int:
    """Archive peers that have left ``keep`` seconds ago; return how many."""
    values = {"keep": keep, "limit": limit}
    return connection.execute(query("archive"), values).rowcount
