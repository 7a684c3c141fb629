"""What was done to hosts, and what they and their observers wrote."""

from __future__ import annotations

from typing import Any

import psycopg

from tests.chaos.observers.events import Event
from tests.chaos.observers.oracle import Span, Write, without

DRAINING = """
select node::text from pecker_observer_nodes where name = %s and state = 'draining'
"""
LIVES = """
select node::text, name, extract(epoch from started_at)::float8,
       extract(epoch from leased_until - ttl)::float8
from pecker_observer_nodes
"""
SEEN = """
select name, extract(epoch from at)::float8 from pecker_observer_history
where event in ('started', 'moved')
union all
select name, extract(epoch from at)::float8 from writes
union all
select name, extract(epoch from at)::float8 from called, unnest(names) as name
"""
BEFORE = 5.0
"""Seconds before a gap whose events are shown."""


class Record:
    """What a run leaves for the oracle. Instants are the database's."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self.events: list[tuple[float, Event]] = []
        self._drained: dict[str, list[Span]] = {}
        """By the id of a host."""

    def drains(self, name: str, now: float) -> None:
        """Keep that hosts of this name take nothing from now on."""
        for (node,) in self._connection.execute(DRAINING, [name]).fetchall():
            self._drained.setdefault(node, []).append(Span(now, float("inf")))

    def takes(self, name: str, now: float) -> None:
        """Keep that hosts of this name take observers again."""
        for (node,) in self._connection.execute(DRAINING, [name]).fetchall():
            spans = self._drained.get(node, [])
            spans[:] = [Span(one.since, min(one.until, now)) for one in spans]

    def writes(self) -> list[Write]:
        """Return all guarded writes."""
        rows = self._connection.execute(
            "select name, epoch, extract(epoch from at)::float8 from writes"
        ).fetchall()
        return [Write(*row) for row in rows]

    def seen(self) -> dict[str, list[float]]:
        """Return when each observer was taken, wrote, or was said to run, by name."""
        found: dict[str, list[float]] = {}
        with self._connection.cursor() as cursor:
            for name, at in cursor.stream(SEEN):
                found.setdefault(name, []).append(at)
        return found

    def lived(self) -> list[Span]:
        """Return when each life of a host renewed its lease and did not drain."""
        return [
            span
            for node, _, life in self._lives()
            for span in without([life], self._drained.get(node, []))
        ]

    def story(self, since: float, until: float) -> str:
        """Return what was done between two instants, and which hosts lived then."""
        lines = [
            f"{at - since:+.1f} s: {event.failure} at {event.moment}, host {event.host}"
            for at, event in self.events
            if since - BEFORE < at < until
        ]
        for node, name, life in self._lives():
            if life.since < until and life.until > since:
                drained = ", ".join(
                    f"{one.since - since:+.1f} to {one.until - since:+.1f} s"
                    for one in self._drained.get(node, [])
                )
                lines.append(
                    f"{name} lived from {life.since - since:+.1f} to"
                    f" {life.until - since:+.1f} s, draining: {drained or 'never'}"
                )
        return "\n".join(lines)

    def _lives(self) -> list[tuple[str, str, Span]]:
        return [
            (node, name, Span(since, last))
            for node, name, since, last in self._connection.execute(LIVES).fetchall()
        ]
