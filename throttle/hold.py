"""Where tasks wait before they take a slot: pure, bounded, fair between tenants.

`Hold` knows nothing of Celery: what it keeps are items of any kind with a target, a
size and an expected cost. Whose turn it is says a virtual time by tenant (start-time
fair queueing): each tenant's clock runs by what its items cost, over its weight, and
the one that is behind goes first. So 10,000 items of one tenant do not delay the ten of
another, and a tenant that was away has saved nothing up.

    by database      which may take: one lane is shut, the others go on
    by tenant        fair by cost and weight
    by priority      the smaller number first
    by age           first in, first out

`Lanes` is one database: whose turn it is. `Hold` has all of them, bounds and counts.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from threading import RLock
from typing import Generic, TypeVar

from celery_pecker.kernel.clock import Monotonic, monotonic
from throttle.model import NOTHING, Admission, Amount, Limit, Target

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What waits for one database."""

    count: int = 0
    bytes: int = 0
    oldest: float = 0.0
    """Seconds that the oldest has waited."""
    cost: Amount = NOTHING
    """What all of it is expected to cost."""
    tenants: Mapping[str, int] = field(default_factory=dict)
    """How many, by tenant."""


@dataclass(eq=False, repr=False)
class Hold(Generic[Item]):
    """Items that wait, each until its database lets it pass. Threads may share it.

    Putting and removing cost the same however many wait; a turn costs the logarithm of
    the number of tenants. Items are distinguished by identity; they need not be
    hashable.
    """

    limits: Mapping[str, Limit]
    max_messages: int
    max_bytes: int
    clock: Monotonic = monotonic

    def __post_init__(self) -> None:
        self._lanes: dict[str, Lanes[Item]] = {
            name: Lanes(limit.tenants) for name, limit in self.limits.items()
        }
        self._entries: dict[int, tuple[str, Entry[Item]]] = {}
        self.bytes = 0
        self._lock = RLock()
        """Re-entrant for handlers of signals: a cold shutdown waits in one for an
        answer of the broker, and holds what comes before it."""

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def full(self) -> bool:
        """Return whether it holds as much as it may: park, pause or hand back."""
        return len(self._entries) >= self.max_messages or self.bytes >= self.max_bytes

    @property
    def databases(self) -> Collection[str]:
        """Return the databases that something waits for."""
        return [name for name, lanes in self._lanes.items() if len(lanes)]

    def must_wait(self, target: Target) -> bool:
        """Return whether a newcomer has to wait, because others wait for its database.

        Newcomers of the same tenant would overtake their elders; those of another would
        take, one by one, what the fair order gives to those that waited.
        """
        # Asked for each task that comes; mostly nothing waits at all
        return bool(self._entries) and len(self._lanes[target.database]) > 0

    def put(
        self,
        target: Target,
        item: Item,
        *,
        size: int,
        priority: int = 0,
        cost: Amount = NOTHING,
    ) -> None:
        """Let it wait. The smaller `priority` goes first; `size` in bytes.

        It is taken in though `full`: where to go then is the caller's to know. An item
        that waits already is left where it is.
        """
        entry = Entry(
            item,
            target.tenant,
            priority,
            size,
            cost,
            self.limits[target.database].fraction(cost),
            self.clock(),
        )
        with self._lock:
            if id(item) in self._entries:
                return
            self._entries[id(item)] = target.database, entry
            self._lanes[target.database].add(id(item), entry)
            self.bytes += size

    def take(self, database: str, admit: Callable[[Item], Admission]) -> Iterator[Item]:
        """Yield those that are admitted; stop at the first that is not.

        What was yielded waits no more. Ends if the caller does not go on.
        """
        lanes = self._lanes[database]
        while True:
            with self._lock:
                entry = lanes.head()
                if entry is None:
                    return
                if not admit(entry.item).admitted:
                    return
                key = id(entry.item)
                lanes.serve(key, entry)
                del self._entries[key]
                self.bytes -= entry.size
            yield entry.item

    def remove(self, item: Item) -> bool:
        """Remove what was revoked or handed back; return whether it waited."""
        with self._lock:
            database, entry = self._entries.get(id(item), ("", None))
            if entry is None:
                return False
            self._forget(database, entry)
            return True

    def items(self) -> list[Item]:
        """Return all that wait, oldest first within a database."""
        with self._lock:
            return [entry.item for lanes in self._lanes.values() for entry in lanes]

    def position(self, item: Item) -> tuple[float, int] | None:
        """Return for how many seconds an item has waited, and behind how many elders.

        Of its database; whose turn it is depends on tenants and priorities, too.
        """
        with self._lock:
            database, mine = self._entries.get(id(item), ("", None))
            if mine is None:
                return None
            ahead = next(
                ahead
                for ahead, entry in enumerate(self._lanes[database])
                if entry is mine
            )
            return self.clock() - mine.since, ahead

    def clear(self) -> None:
        """Remove all that waits."""
        with self._lock:
            for database, entry in list(self._entries.values()):
                self._forget(database, entry)

    def waiting(self, database: str) -> Waiting:
        """Return what waits for a database."""
        with self._lock:
            lanes = self._lanes[database]
            oldest = lanes.oldest
            return Waiting(
                count=len(lanes),
                bytes=lanes.bytes,
                oldest=self.clock() - oldest.since if oldest else 0.0,
                cost=lanes.cost,
                tenants=lanes.counts(),
            )

    def _forget(self, database: str, entry: Entry[Item]) -> None:
        key = id(entry.item)
        self._lanes[database].drop(key, entry)
        del self._entries[key]
        self.bytes -= entry.size
