"""A picture of one instant. All of it is immutable and can be written as JSON."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from throttle.model import NOTHING, Amount


class State(StrEnum):
    """How a database stands; what needs a look comes first."""

    OVER = "over"
    """It gets more than its limit."""
    HOLDING = "holding"
    """Tasks wait: the gate does what it is there for."""
    LOWERED = "lowered"
    """Nothing waits, but the second signal has lowered the limit."""
    UNGUARDED = "unguarded"
    """It has a limit and no worker that holds to it."""
    CALM = "calm"
    """Nothing waits."""
    UNLIMITED = "unlimited"
    """It is counted, and this app has no limit for it."""


ORDER = {state: place for place, state in enumerate(State)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """What a worker reported last."""

    id: str
    name: str
    share: float
    """Its part of the limit, 0 … 1."""
    held: int
    held_bytes: int
    parked: int
    admitted: int
    would_hold: int
    dropped: int
    """Operations of its process, of all databases, that are in no sum."""
    oldest: float
    """Seconds that its oldest held task has waited."""
    rate: float | None = None
    """Admitted per second since the look before; None: there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """Over all workers; the 20 of each with most held."""

    name: str
    held: int
    part: float = 0.0
    """Of all that is held for the database, 0 … 1."""
    rate: float | None = None
    """Admitted per second since the look before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How one database stands."""

    name: str
    state: State
    summary: str
    """The state in a sentence."""
    notes: tuple[str, ...] = ()
    """Further remarks for people."""
    traffic: Amount = NOTHING
    """Per second, by the estimator of the settings."""
    fast: Amount = NOTHING
    """By the fast one: what happens now."""
    outside: Amount = NOTHING
    """Of the traffic, what no gate holds back: web processes, other tools."""
    operations: float | None = None
    """The limit, per second."""
    seconds: float | None = None
    """The limit in busy connections."""
    used: float = 0.0
    """Traffic as a part of the limit in force, of the scarcer of the two; 0 if
    unlimited."""
    factor: float = 1.0
    """The limit in force is so much of the limit."""
    shadow: bool = False
    held: int = 0
    held_bytes: int = 0
    parked: int = 0
    admitted: int = 0
    would_hold: int = 0
    oldest: float = 0.0
    rate: float | None = None
    """Tasks admitted per second since the look before."""
    would_rate: float | None = None
    """Tasks per second that would have been held, in shadow mode."""
    workers: tuple[Worker, ...] = ()
    tenants: tuple[Tenant, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """How all databases stand."""

    at: float
    """Seconds since 1970, by this host."""
    databases: tuple[Status, ...]
    """What needs a look comes first."""
    estimator: str
    away: str = ""
    """Why nothing newer is known; empty: it is."""
    since: float = 0.0
    """Seconds that the store has been away."""

    def only(self, database: str) -> Picture:
        """Return the picture of one database."""
        return replace(
            self,
            databases=tuple(one for one in self.databases if one.name == database),
        )

    @property
    def held(self) -> int:
        """Return the tasks that wait, of all databases."""
        return sum(status.held for status in self.databases)
