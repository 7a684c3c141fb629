"""Sends the signals of observers, on a thread of its own: a listener may be slow."""

from collections import deque
from typing import Any

from celery_pecker import signals
from celery_pecker.kernel.loop import Loop
from celery_pecker.observers.hosts.tables import Outcome
from celery_pecker.observers.lease import Claimed
from celery_pecker.observers.model import Report

STARTED = signals.observer_started, signals.ObserverStarted
MOVED = signals.observer_moved, signals.ObserverMoved
STOPPED = signals.observer_stopped, signals.ObserverStopped
PARKED = signals.observer_parked, signals.ObserverParked
MOST = 10_000
"""Events that wait; the oldest are dropped: the history has them."""
REST = 60.0
"""Seconds; a new event wakes the thread."""


class Events:
    """Signals that wait to be sent."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[signals.Signal[Any], Any]] = deque(maxlen=MOST)
        self._loop = Loop(self.step, name="pecker observer events")

    def start(self) -> None:
        """Start the thread."""
        self._loop.start()

    def begun(self, claimed: Claimed) -> None:
        """Announce that an observer begins to run in this process."""
        self._add(MOVED if claimed.moved else STARTED, claimed)

    def ended(self, claimed: Claimed, outcome: Outcome) -> None:
        """Announce what became of an observer, once the tables have it."""
        if outcome.report is Report.PARKED:
            self._add(PARKED, claimed, error=outcome.error or "")
        elif outcome.report in {Report.STOPPED, Report.RETURNED}:
            self._add(STOPPED, claimed)

    def step(self) -> float:
        """Send what waits; return the seconds to sleep."""
        while self._waiting:
            signal, event = self._waiting.popleft()
            signal.send(event)
        return REST

    def _add(
        self, of: tuple[signals.Signal[Any], Any], one: Claimed, **more: str
    ) -> None:
        signal, event = of
        told = event(name=one.name, kind=one.kind, epoch=one.epoch, **more)
        self._waiting.append((signal, told))
        self._loop.wake()
