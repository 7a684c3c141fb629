"""Read what observers and their hosts do, for people, metrics and probes."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from celery_pecker.kernel.database import Database
from celery_pecker.observers.model import (
    CountRow,
    EventRow,
    NodeRow,
    ObserverRow,
    Place,
    Status,
)

MOST = 10_000
"""Rows of one listing at most."""
SHOWN = tuple(place for place in Place if place is not Place.GONE)
"""Places of observers that are there."""
RANKS = ("parked", "waiting", "stopping", "retrying", "running")
"""The same, those that need a look first."""


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

    def summary(self) -> ObserversSummary:
        """Count observers by kind and place; return them with the hosts."""
        [unsent] = self._database.read(Unsent, "count_observer_notices")
        return summed(self.counts(), self.hosts(), unsent)

    def counts(self) -> Sequence[CountRow]:
        """Return how many there are of each kind in each place."""
        return self._database.read(_count, "summarize_observers")

    def page(
        self, which: Which, *, limit: int, behind: tuple[str, str] | None = None
    ) -> ObserverPage:
        """Return observers: those that need a look first, then by name.

        Args:
            which: the observers.
            limit: so many at most.
            behind: those behind the one of this place and name.
        """
        place, name = behind or (None, None)
        rows = self._database.read(
            _counted,
            "search_observers",
            **asdict(which),
            ranks=[*RANKS],
            after_place=place,
            after=name,
            most=limit,
        )
        total = rows[0][1] if rows else 0
        return ObserverPage([row for row, _ in rows], total)

    def hosts(self, *, dead: bool = False) -> Sequence[NodeRow]:
        """Return the hosts with their load and lease, by name."""
        return self._database.read(NodeRow, "list_observer_nodes", dead=dead)

    def list(  # noqa: PLR0913  # what a row may be chosen by
        self,
        *,
        name: str | None = None,
        kind: str | None = None,
        node: str | None = None,
        place: str | None = None,
        after: str | None = None,
        deleted: bool = False,
        limit: int = 1_000,
    ) -> Sequence[ObserverRow]:
        """Return observers by name."""
        return self._database.read(
            _observer,
            "list_observers",
            name=name,
            kind=kind,
            node=node,
            place=place,
            after=after,
            deleted=deleted,
            most=min(limit, MOST),
        )

    def get(self, name: str) -> ObserverRow | None:
        """Return an observer, a deleted one too; None: there is none."""
        rows = self.list(name=name, deleted=True, limit=1)
        return rows[0] if rows else None

    def history(self, name: str | None, *, limit: int) -> Sequence[EventRow]:
        """Return the newest events of an observer, or of all, newest first."""
        return self._database.read(
            EventRow, "read_observer_history", name=name, most=min(limit, MOST)
        )

    def known_kinds(self) -> Sequence[str]:
        """Return the kinds that hosts have declared."""
        return self._database.column("list_observer_kinds")


def _observer(status: str, place: str, **columns: Any) -> ObserverRow:
    return ObserverRow(status=Status(status), place=Place(place), **columns)


def _counted(total: int, **columns: Any) -> tuple[ObserverRow, int]:
    return _observer(**columns), total


def _count(place: str, **columns: Any) -> CountRow:
    return CountRow(place=Place(place), **columns)


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
    rows: Sequence[CountRow],
    hosts: Sequence[NodeRow],
    unsent: Unsent | None = None,
) -> ObserversSummary:
    """Return the sums of what was counted by kind and place. Pure."""
    kinds: dict[str, KindRow] = {}
    oldest: float | None = None
    for row in rows:
        one = kinds.setdefault(row.kind, KindRow(kind=row.kind))
        one.places[row.place] += row.count
        one.weight += row.weight
        one.moves += row.moves
        if row.waited is not None:
            oldest = max(row.waited, oldest or 0.0)
    return ObserversSummary(
        kinds=[*kinds.values()],
        hosts=hosts,
        oldest_waiting=oldest,
        unsent=unsent or Unsent(),
    )
