"""What observers are, and what is answered about them. Pure."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any


class Status(enum.StrEnum):
    """How far the life of an observer's row has come: forward only."""

    CREATED = "created"
    """It is recorded; no host has run it yet."""
    PROCESSING = "processing"
    """A host has taken it, be it this one or one before."""
    ON_DELETING = "on_deleting"
    """Its end was requested; the host that runs it has not reported it."""
    DELETED = "deleted"
    """It has ended; its name is free."""


class Place(enum.StrEnum):
    """Where an observer is at this moment, beside its status."""

    WAITING = "waiting"
    """No host runs it: it is new, its host died, or it was handed over."""
    RUNNING = "running"
    RETRYING = "retrying"
    """Its code failed; its host tries again after a wait."""
    PARKED = "parked"
    """Its code failed too often: it waits for people."""
    STOPPING = "stopping"
    GONE = "gone"
    """It is deleted."""


class Answer(enum.StrEnum):
    """What is answered to a stop or a restart."""

    ASKED = "asked"
    """It runs, or ran: its end, or its new beginning, was asked for."""
    NOT_ACTIVE_YET = "not active yet"
    """No host had run it: it is deleted, and none will."""
    ALREADY_ASKED = "already asked"
    ALREADY_DELETED = "already deleted"
    NOT_FOUND = "not found"


class Isolation(enum.StrEnum):
    """Where the code of an observer runs."""

    LOOP = "loop"
    """On the event loop of the host: an async function."""
    THREAD = "thread"
    """In a thread of the host: a plain function that waits by ``lease.wait``."""
    PROCESS = "process"
    """In a process of its own, which can be killed."""


class Unreachable(enum.StrEnum):
    """What an observer does while its host cannot renew the lease."""

    STOP = "stop"
    """It is ended before the lease is over: no second life beside it."""
    GO_ON = "go_on"
    """It runs on: there may be a second life, whose guarded writes alone succeed."""


class Report(enum.StrEnum):
    """What a host reports of a life."""

    RELEASED = "released"
    RESTARTED = "again"
    FAILED = "failed"
    PARKED = "parked"
    RETURNED = "returned"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverRow:
    """An observer as the table has it."""

    id: int
    name: str
    kind: str
    args: Mapping[str, Any]
    weight: int
    status: Status
    place: Place
    node: str | None
    """Id of the host that runs it."""
    node_name: str | None
    epoch: int
    failures: int
    """In a row."""
    moves: int
    """How often another host than before has taken it."""
    last_error: str | None
    state: Any
    """The cursor that its next life begins from."""
    not_before: datetime
    parked_at: datetime | None
    created_at: datetime
    modified_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """A host as the table has it."""

    node: str
    name: str
    pid: int
    state: str
    """``up``, ``draining`` or ``dead``."""
    capacity: int
    load: int
    """The sum of the weights that it holds."""
    observers: int
    kinds: Sequence[str]
    lease: float
    """Seconds that are left of its lease; negative: it is over."""
    started_at: datetime
    left_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """What happened to an observer."""

    id: int
    observer: int
    name: str
    kind: str
    event: str
    node: str | None
    node_name: str | None
    epoch: int
    at: datetime
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CountRow:
    """How many observers of a kind are in a place."""

    kind: str
    place: Place
    count: int
    weight: int
    moves: int = 0
    """How often they have moved, together."""
    waited: float | None = None
    """Seconds for which the oldest that a host may take has waited; None: none is."""
