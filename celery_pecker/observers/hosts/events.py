"""Sends the signals of observers, on a thread of its own: a listener may be slow."""

from collections import deque
from collections.abc import Mapping
from typing import Any

from celery_pecker import signals
from celery_pecker.kernel.loop import Loop
from celery_pecker.observers.hosts.tables import Outcome
from celery_pecker.observers.lease import Claimed
from celery_pecker.observers.model import Report

Event = (
    signals.ObserverStarted
    | signals.ObserverMoved
    | signals.ObserverStopped
    | signals.ObserverParked
)
SIGNALS: Mapping[type[Event], signals.Signal[Any]] = {
    signals.ObserverStarted: signals.observer_started,
    signals.ObserverMoved: signals.observer_moved,
    signals.ObserverStopped: signals.observer_stopped,
    signals.ObserverParked: signals.observer_parked,
}
MOST = 10_000
"""Events that wait; the oldest are dropped: the history has them."""
REST = 60.0
"""Seconds; a new event wakes the thread."""


class Events:
    """Signals that wait to be sent."""

    def __init__(self) -> None:
        self._waiting: deque[Event] = deque(maxlen=MOST)
        self._loop = Loop(self.step, name="pecker observer events")

    def start(self) -> None:
        """Start the thread."""
        self._loop.start()

    def begun(self, claimed: Claimed) -> None:
        """Announce that an observer begins to run in this process."""
        kind = signals.ObserverMoved if claimed.moved else signals.ObserverStarted
        self._add(kind(name=claimed.name, kind=claimed.kind, epoch=claimed.epoch))

    def ended(self, claimed: Claimed, outcome: Outcome) -> None:
        """Announce what became of an observer, once the tables have it."""
        one, epoch = claimed, claimed.epoch
        if outcome.report is Report.PARKED:
            self._add(
                signals.ObserverParked(
                    name=one.name, kind=one.kind, epoch=epoch, error=outcome.error or ""
                )
            )
        elif outcome.report in {Report.STOPPED, Report.RETURNED}:
            self._add(
                signals.ObserverStopped(name=one.name, kind=one.kind, epoch=epoch)
            )

    def step(self) -> float:
        """Send what waits; return the seconds to sleep."""
        while self._waiting:
            event = self._waiting.popleft()
            SIGNALS[type(event)].send(event)
        return REST

    def _add(self, event: Event) -> None:
        self._waiting.append(event)
        self._loop.wake()
