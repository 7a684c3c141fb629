"""Events as values, and the one point that calls the listeners of each.

Listeners (metrics, alarms, tests that wait) are called on the thread of the event;
what they raise is logged by name and never reaches the scheduler.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from celery_pecker.kernel import user_code

Event = TypeVar("Event")


class Signal(Generic[Event]):
    """A named point that listeners can be connected to."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._listeners: tuple[Callable[[Event], object], ...] = ()

    def connect(self, listener: Callable[[Event], object]) -> None:
        """Call the listener with each event from now on."""
        self._listeners = (*self._listeners, listener)

    def disconnect(self, listener: Callable[[Event], object]) -> None:
        """Call the listener no more."""
        self._listeners = tuple(one for one in self._listeners if one != listener)

    def send(self, event: Event) -> None:
        """Call every receiver."""
        for listener in self._listeners:
            user_code.call(f"a listener of {self.name}", None, listener, event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Woke:
    """One wake-up of a replica, counted."""

    due: int
    won: int
    published: int
    missed: int
    claim_seconds: float
    publish_seconds: float
    lateness_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """Slots that will have no message, and why."""

    names: tuple[str, ...]
    slots: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStepped:
    """The database's clock jumped, by that many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A run that was not started here."""

    name: str
    """The entry's."""
    task: str
    reason: str
    """``late``, ``overtaken``, ``repeated`` or ``unknown``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """A run of an entry that ended in this process."""

    name: str
    """The entry's."""
    task: str
    state: str
    """``succeeded``, ``failed`` or ``overrun`` (its deadline ended it)."""
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverEvent:
    """Something that happened to an observer in this process."""

    name: str
    kind: str
    epoch: int


class ObserverStarted(ObserverEvent):
    """An observer began to run in this process."""


class ObserverMoved(ObserverEvent):
    """An observer began to run in this process, which another host ran before."""


class ObserverStopped(ObserverEvent):
    """An observer of this process ended for good, and is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverParked(ObserverEvent):
    """An observer of this process failed too often, and waits for people."""

    error: str


woke: Signal[Woke] = Signal("woke")
missed: Signal[Missed] = Signal("missed")
clock_stepped: Signal[ClockStepped] = Signal("clock_stepped")
refused: Signal[Refused] = Signal("refused")
run_ended: Signal[RunEnded] = Signal("run_ended")
observer_started: Signal[ObserverStarted] = Signal("observer_started")
observer_moved: Signal[ObserverMoved] = Signal("observer_moved")
observer_stopped: Signal[ObserverStopped] = Signal("observer_stopped")
observer_parked: Signal[ObserverParked] = Signal("observer_parked")
