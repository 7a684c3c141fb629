"""Read what observers and their hosts do, for people, metrics and probes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from celery_pecker.kernel.adapters import drive
from celery_pecker.kernel.adapters.adapter import Flow
from celery_pecker.kernel.adapters.own_connection import OwnAdapter
from celery_pecker.kernel.database import Database
from celery_pecker.observers.model import EventRow, NodeRow, ObserverRow, Place
from celery_pecker.observers.statements import Statements, observer_row

T = TypeVar("T")

SHOWN = tuple(place for place in Place if place is not Place.GONE)
"""Places of observers that are there."""


@dataclass(slots=True, kw_only=True)
class KindRow:
    """What there is of one kind."""

    kind: str
    places: dict[Place, int] = field(default_factory=lambda: dict.fromkeys(SHOWN, 0))
    """How many are in each place."""
    weight: int = 0
    moves: int = 0
    """How often those that are there have moved, together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsent:
    """Signatures of ``on_parked`` and ``on_moved`` that could not be sent so far."""

    count: int = 0
    oldest: float | None = None
    """Seconds since the event of the oldest; None: there is none."""
    error: str | None = None
    """Of the one that was tried most often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserversSummary:
    """What there is of all observers, and of their hosts."""

    kinds: Sequence[KindRow]
    hosts: Sequence[NodeRow]
    oldest_waiting: float | None
    """Seconds for which one that a host may take has waited; None: none waits."""
    unsent: Unsent = field(default_factory=Unsent)

    def count(self, place: Place) -> int:
        """Return how many are in a place."""
        return sum(one.places[place] for one in self.kinds)

    @property
    def taking(self) -> Sequence[NodeRow]:
        """The hosts that take observers."""
        return [one for one in self.hosts if one.state == "up" and one.lease > 0]

    @property
    def capacity(self) -> int:
        """What the hosts that take observers may hold together."""
        return sum(one.capacity for one in self.taking)

    @property
    def held(self) -> int:
        """The weights that hosts hold."""
        return sum(one.load for one in self.hosts)

    @property
    def free(self) -> int:
        """What those that take observers have room for."""
        return sum(max(one.capacity - one.load, 0) for one in self.taking)


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """Which observers are meant; None: all of them."""

    search: str | None = None
    """Part of the name or the kind, whatever its case."""
    kind: str | None = None
    node: str | None = None
    """Name or id of a host."""
    place: str | None = None


@dataclass(frozen=True, slots=True)
class ObserverPage:
    """Some observers, and how many there are on all pages."""

    rows: Sequence[ObserverRow]
    total: int


class ObserversOverview:
    """A look at the observers of one schema."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._statements = Statements(database.schema)

    def summary(self) -> ObserversSummary:
        """Count observers by kind and place; return them with the hosts."""
        rows = self._database.run("summarize_observers", now=None)
        [(count, oldest, error)] = self._database.run(
            "count_observer_notices", now=None
        )
        unsent = Unsent(count=count, oldest=oldest, error=error)
        return summed(rows, self.hosts(), unsent)

    def page(self, which: Which, *, limit: int, skip: int = 0) -> ObserverPage:
        """Return observers: those that need a look first, then by name."""
        rows = self._database.run(
            "search_observers",
            now=None,
            search=which.search,
            kind=which.kind,
            node=which.node,
            place=which.place,
            most=limit,
            skip=skip,
        )
        total = rows[0][-1] if rows else 0
        return ObserverPage([observer_row(row[:-1]) for row in rows], total)

    def hosts(self, *, dead: bool = False) -> Sequence[NodeRow]:
        """Return the hosts with their load and lease, by name."""
        return self._ask(self._statements.nodes(dead=dead))

    def get(self, name: str) -> ObserverRow | None:
        """Return an observer, a deleted one too; None: there is none."""
        rows = self._ask(self._statements.rows(name=name, deleted=True, limit=1))
        return rows[0] if rows else None

    def history(self, name: str | None, *, limit: int) -> Sequence[EventRow]:
        """Return the newest events of an observer, or of all, newest first."""
        return self._ask(self._statements.history(name, limit))

    def known_kinds(self) -> Sequence[str]:
        """Return the kinds that hosts have declared."""
        rows = self._database.run("list_observer_kinds")
        return [kind for (kind,) in rows]

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

    def abandon(self) -> None:
        """Drop the connection in a fork of its owner."""
        self._database.abandon()

    def _ask(self, flow: Flow[T]) -> T:
        return drive(OwnAdapter(self._database), lambda _: flow)


def totals(kinds: Sequence[KindRow]) -> KindRow:
    """Return what there is of all kinds, under an empty name. Pure."""
    places: dict[Place, int] = {
        place: sum(one.places[place] for one in kinds) for place in SHOWN
    }
    return KindRow(
        kind="",
        places=places,
        weight=sum(one.weight for one in kinds),
        moves=sum(one.moves for one in kinds),
    )


def summed(
    rows: Sequence[tuple[str, str, int, int, int, float | None]],
    hosts: Sequence[NodeRow],
    unsent: Unsent | None = None,
) -> ObserversSummary:
    """Return the sums of what was counted by kind and place. Pure."""
    kinds: dict[str, KindRow] = {}
    oldest: float | None = None
    for kind, place, count, weight, moves, waited in rows:
        one = kinds.setdefault(kind, KindRow(kind=kind))
        one.places[Place(place)] += count
        one.weight += weight
        one.moves += moves
        if waited is not None:
            oldest = max(waited, oldest or 0.0)
    return ObserversSummary(
        kinds=[*kinds.values()],
        hosts=hosts,
        oldest_waiting=oldest,
        unsent=unsent or Unsent(),
    )
