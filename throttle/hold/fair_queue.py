"""Whose turn it is among the items that wait for one database."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Generic, TypeVar

from throttle.model import NOTHING, Amount

Item = TypeVar("Item")
LEAST = 1e-6
"""What an item counts at least, as a part of the limit: free ones take turns too."""


@dataclass(slots=True, eq=False)
class Entry(Generic[Item]):
    """An item that waits."""

    item: Item
    tenant: str
    priority: int
    size: int
    cost: Amount
    part: float
    """The cost as a part of the limit."""
    since: float


@dataclass(slots=True, eq=False)
class Tenant(Generic[Item]):
    """The lanes of one tenant, one for each priority that waits."""

    weight: float
    clock: float = 0.0
    """Virtual time: what it was granted so far, over its weight."""
    lanes: dict[int, OrderedDict[int, Entry[Item]]] = field(default_factory=dict)
    count: int = 0

    def add(self, key: int, entry: Entry[Item]) -> None:
        """Put it last of its priority."""
        lane = self.lanes.get(entry.priority)
        if lane is None:
            lane = self.lanes[entry.priority] = OrderedDict()
        lane[key] = entry
        self.count += 1

    def drop(self, key: int, entry: Entry[Item]) -> None:
        """Remove it."""
        lane = self.lanes[entry.priority]
        del lane[key]
        if not lane:
            del self.lanes[entry.priority]
        self.count -= 1

    def first(self) -> Entry[Item]:
        """Return the oldest of the first priority."""
        return next(iter(self.lanes[min(self.lanes)].values()))


class Lanes(Generic[Item]):
    """The items that wait for one database."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._weights = weights
        self._tenants: dict[str, Tenant[Item]] = {}
        self._turns: list[tuple[float, int, str]] = []
        """A heap of virtual clocks; exactly one for each tenant that waits."""
        self._turn = 0
        self._now = 0.0
        """The virtual time of the one that was served last."""
        self._order: OrderedDict[int, Entry[Item]] = OrderedDict()
        self.bytes = 0
        self.cost = NOTHING

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[Entry[Item]]:
        return iter(self._order.values())

    @property
    def oldest(self) -> Entry[Item] | None:
        """Return the one that waits longest."""
        return next(iter(self._order.values()), None)

    def waits(self, tenant: str) -> bool:
        """Return whether something of the tenant waits."""
        known = self._tenants.get(tenant)
        return known is not None and known.count > 0

    def counts(self) -> dict[str, int]:
        """Return how many wait, by tenant."""
        return {name: one.count for name, one in self._tenants.items() if one.count}

    def add(self, key: int, entry: Entry[Item]) -> None:
        """Put it after those of its tenant and priority."""
        tenant = self._tenants.get(entry.tenant)
        if tenant is None:
            weight = self._weights.get(entry.tenant, 1.0)
            tenant = self._tenants[entry.tenant] = Tenant(weight)
            # A tenant that had nothing waiting has saved nothing up
            tenant.clock = self._now
            self._queue(entry.tenant, tenant)
        tenant.add(key, entry)
        self._order[key] = entry
        self.bytes += entry.size
        self.cost = self.cost.plus(entry.cost)

    def drop(self, key: int, entry: Entry[Item]) -> None:
        """Remove it without counting its tenant as served."""
        tenant = self._tenants[entry.tenant]
        tenant.drop(key, entry)
        del self._order[key]
        self.bytes -= entry.size
        self.cost = self.cost.plus(entry.cost.times(-1)) if self._order else NOTHING

    def head(self) -> Entry[Item] | None:
        """Return whose turn it is."""
        while self._turns:
            name = self._turns[0][2]
            tenant = self._tenants[name]
            if tenant.count:
                return tenant.first()
            # All others have been served as much: when it comes back it owes nothing.
            self._now = max(self._now, tenant.clock)
            heappop(self._turns)
            del self._tenants[name]
        return None

    def serve(self, key: int, entry: Entry[Item]) -> None:
        """Remove it after its turn: its tenant pays for it."""
        tenant = self._tenants[entry.tenant]
        self.drop(key, entry)
        self._now = max(self._now, tenant.clock)
        tenant.clock += max(entry.part, LEAST) / tenant.weight
        heappop(self._turns)  # its own: the served tenant is at the head
        self._queue(entry.tenant, tenant)

    def _queue(self, name: str, tenant: Tenant[Item]) -> None:
        self._turn += 1
        heappush(self._turns, (tenant.clock, self._turn, name))
