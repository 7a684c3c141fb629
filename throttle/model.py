"""What passes between the rooms: amounts of database work, reports, answers.

All of it is immutable, so that a thread may hand it to another as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

TICK = 0.1
"""Seconds between two reports of a process, and the width of a bucket."""
STALE = 0.3
"""Seconds after which what the store answered last is no longer trusted."""


class Amount(NamedTuple):
    """Database work: so many statements, so long, so many rows.

    Of one run it is a cost, of one second it is traffic.
    """

    operations: float = 0.0
    seconds: float = 0.0
    """Summed over connections: two statements of 1 s side by side are 2 s. Per second
    it is the mean number of busy connections (Little's law)."""
    rows: float = 0.0

    def plus(self, other: "Amount") -> "Amount":
        """Return both together."""
        return Amount(self[0] + other[0], self[1] + other[1], self[2] + other[2])

    def times(self, factor: float) -> "Amount":
        """Return so many times as much."""
        return Amount(self[0] * factor, self[1] * factor, self[2] * factor)


NOTHING = Amount()


class Estimator(StrEnum):
    """How traffic is computed from the buckets."""

    WEIGHTED = "weighted"
    """80, 15 and 5 % of the last three complete seconds."""
    FAST = "fast"
    """The greater of the last second and the rate of the last 300 ms."""


class Policy(StrEnum):
    """What holds while the store is away."""

    OPEN = "open"
    """Everything passes."""
    CLOSED = "closed"
    """Nothing passes."""
    SAFE = "safe"
    """Half of the last share, counted by this process alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """When a PostgreSQL server is in trouble by what it says of itself."""

    dsn: str = field(repr=False)
    active: float | None = None
    """Backends that are at work at once."""
    wal_rate: float | None = None
    """Bytes of write-ahead log per second."""
    lag: float | None = None
    """Seconds that the slowest replica is behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What a database bears per second."""

    database: str
    operations: float
    seconds: float | None = None
    """Busy connections on average; None: not limited."""
    policy: Policy = Policy.SAFE
    shadow: bool = False
    """Nothing is held, what would have been is counted."""
    tenants: Mapping[str, float] = field(default_factory=dict)
    """Weights of tenants when they wait; 1 where none is set."""
    watch: Watch | None = None
    queues: tuple[str, ...] = ()
    """Whose tasks all go to this database."""

    def fraction(self, amount: Amount) -> float:
        """Return how much of the limit an amount is: of the scarcer of the two."""
        part = amount.operations / self.operations
        if self.seconds is None:
            return part
        return max(part, amount.seconds / self.seconds)


class Target(NamedTuple):
    """Where a task's traffic goes."""

    database: str
    tenant: str = ""


class Admission(NamedTuple):
    """The answer of a gate."""

    admitted: bool
    remaining: float
    """What could still be admitted now: operations for a worker, tasks for a
    dispatcher."""
    retry_after: float
    """Seconds until a retry is of use; 0 if admitted."""


# What a process counted


class Sample(NamedTuple):
    """What was counted of one database within one tick."""

    age: float
    """Seconds since that tick ended."""
    amount: Amount
    span: float = TICK
    """Seconds that the tick took: the counts are spread evenly over it."""


class Run(NamedTuple):
    """What one run of a task has cost a database."""

    run: int
    """A number that no other run of its worker has."""
    database: str
    amount: Amount
    """So far, or in all."""
    elapsed: float
    """Seconds since it started, or that it took."""
    ended: bool


class Reading(NamedTuple):
    """What a process counted since it was read last."""

    databases: Mapping[str, Amount]
    runs: tuple[Run, ...] = ()
    """Those that ended since, and those that are running."""
    dropped: int = 0
    """Counts without a place since: they are in no sum."""


# What a process tells the store, and hears


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What a worker tells of itself about a database: for its share, and to people."""

    want: float
    """How much of the limit it could use now; may be above 1."""
    limit: Amount
    """The limit that it goes by (rows are not limited)."""
    held: int = 0
    held_bytes: int = 0
    parked: int = 0
    """Sent to the parking queue since its start."""
    admitted: int = 0
    """Since its start."""
    would_hold: int = 0
    """Since its start; in shadow mode."""
    dropped: int = 0
    """Operations that its process counted since its start and are in no sum: there was
    no place, or Redis was away for longer than they are kept. Of all databases."""
    oldest: float = 0.0
    """Seconds that the oldest held task has waited."""
    turn: float = 0.0
    """Part of the limit that the run costs that waits for its turn, because it is
    larger than a second of the worker's share; 0: none does."""
    tenants: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Held now and admitted since its start, of the 20 tenants with most held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseReport:
    """What a process says of one database."""

    samples: tuple[Sample, ...] = ()
    holding: Holding | None = None
    """None: it holds no share, it only counts or only asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a process says every 100 ms."""

    holder: str
    """Unique per process life."""
    name: str
    """For people: a worker's host name."""
    databases: Mapping[str, DatabaseReport]
    number: int = 0
    """Of its samples, rising from 1 in a holder's life. A report whose answer was lost
    is repeated with the same number and the same samples (older by then): they count
    once. What is held is reported anew each time. 0: there are no samples."""
    answered: bool = True
    """Whether the answer to its last report came, as far as the forwarder knows. If
    not, it may still go by a share from before that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the store answers about one database."""

    traffic: Mapping[Estimator, Amount]
    """Per second, of all processes."""
    outside: Mapping[Estimator, Amount]
    """Of it, what does not come from holders of shares."""
    share: float = 0.0
    """The asker's part of the limit, 0 … 1; the parts of all holders are at most 1
    less what comes from outside."""
    factor: float = 1.0
    """The limit in force is so much of the limit: the second signal's word."""
    holders: int = 0
    turn: bool | None = False
    """Whether the run may start for which the asker waits for its turn, soon and once;
    None: the store knows nothing of turns (an older service)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeAnswer:
    """What a process hears."""

    at: float
    """The store's clock, seconds since 1970."""
    databases: Mapping[str, Seen]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A worker as the store knows it."""

    name: str
    share: float
    holding: Holding


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All that is known of one database: for people."""

    seen: Seen
    holders: Mapping[str, Holder]
    """By id; those heard of within the last second."""
    signal: str = ""
    """What the second signal says, in words; empty: nothing, or there is none."""


NONE = dict.fromkeys(Estimator, NOTHING)
UNSEEN = View(seen=Seen(traffic=NONE, outside=NONE), holders={})
"""A database of which nothing was reported lately."""


class Store(Protocol):
    """Redis, or the service before it. Raises `StoreUnavailable`."""

    def check(self) -> None:
        """Check that it can be used; raise Misconfigured if it never can."""

    def exchange(self, report: Report) -> ExchangeAnswer:
        """Count the report; return what is known of its databases."""

    def look(self) -> Mapping[str, View]:
        """Return all that is known, by database; nothing is changed."""

    def elect(self, database: str, holder: str, seconds: float) -> bool:
        """Return whether `holder` is the watcher of the database now."""

    def lower(self, database: str, factor: float, why: str, seconds: float) -> None:
        """Put so much of the limit in force, for so long."""

    def adjust(self, database: str, factor: float, why: str, seconds: float) -> None:
        """Set the limit to so many times what the settings say, for so long.

        A person's word, beside the second signal's. It ends by itself; 0 seconds end
        it at once.
        """

    def recall(self, database: str) -> str:
        """Return what was kept last of what tasks cost; empty: nothing."""

    def keep(self, database: str, text: str, seconds: float) -> None:
        """Keep what tasks cost, for so long."""

    def close(self) -> None:
        """Close the connections."""
