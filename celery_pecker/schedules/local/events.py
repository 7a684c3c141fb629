"""Send `celery events` of local runs, which Flower reads, as a worker does of tasks.

On a thread and a connection of its own, so that no run waits for the broker. While the
broker is away the newest events wait, the oldest are dropped and counted.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import Any

from celery_pecker.brokers.publisher.connection import BrokerConnection
from celery_pecker.kernel.backoff import Backoff
from celery_pecker.kernel.clock import SYSTEM, Clock, chance
from celery_pecker.kernel.errors import BrokerUnavailable
from celery_pecker.kernel.loop import Loop

logger = logging.getLogger("celery_pecker.schedules.local")

MOST = 1_000
"""Events that wait for the broker."""
NOTHING = 3_600.0
"""Seconds of sleep when there is nothing to send."""
QUICK = 0.5
"""Seconds within which the first try after a failure comes, and all that follow."""


def sends_events(worker: Any) -> Callable[[], bool]:
    """Return a function: whether a worker sends events of tasks now.

    It is asked anew each time: `celery control enable_events` switches them while the
    worker runs. While its consumer reconnects, the last known value counts.
    """
    last = False

    def wanted() -> bool:
        nonlocal last
        events = getattr(getattr(worker, "consumer", None), "event_dispatcher", None)
        if events is not None:
            last = bool(
                events.enabled and (not events.groups or "task" in events.groups)
            )
        return last

    return wanted


@dataclass
class EventSender:
    """Sends events under a worker's name."""

    app: Any
    hostname: str
    _: KW_ONLY
    wanted: Callable[[], bool] = lambda: True
    timeout: InitVar[float] = 2.0
    most: int = MOST
    clock: Clock = SYSTEM
    _events: deque[tuple[str, dict[str, Any]]] = field(default_factory=deque)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _started: bool = False
    _dispatcher: Any = None
    _channel: Any = None
    _failures: int = 0
    _retry_at: float = 0.0
    _backoff: Backoff = field(default_factory=lambda: Backoff(first=0.1, most=QUICK))
    dropped: int = 0
    """Events that are not sent."""

    def __post_init__(self, timeout: float) -> None:
        self._broker = BrokerConnection(self.app, timeout=timeout, clock=self.clock)
        self._loop = Loop(
            self._step, name="pecker-events", clock=self.clock, leave=self._leave
        )

    @property
    def waiting(self) -> int:
        """How many events wait to be sent."""
        return len(self._events)

    def send(self, kind: str, task: Any, **fields: Any) -> None:
        """Queue an event of a task, if the worker sends events at all; never wait."""
        if not task.send_events or not self.wanted():
            return
        fields["timestamp"] = self.clock.now().timestamp()
        with self._lock:
            if len(self._events) >= self.most:
                self._events.popleft()
                self.dropped += 1
            self._events.append((kind, fields))
            if not self._started:
                self._started = True
                self._loop.start()
        self._loop.wake()

    def stop(self) -> None:
        """Leave, after another try to send what waits. Safe in a signal handler."""
        self._loop.stop()

    def join(self, seconds: float) -> bool:
        """Wait until it has left; return whether it has."""
        return not self._started or self._loop.join(seconds)

    def abandon(self) -> None:
        """Drop the connection in a fork of its owner."""
        self._broker.abandon()

    def _step(self) -> float:
        if not self._events:
            return NOTHING
        left = self._retry_at - self.clock.monotonic()
        if left > 0 and not self._loop.stopping:
            return left  # an event woke the loop: it ends no back-off
        try:
            self._broker.ensure()
            self._send()
        except BrokerUnavailable as error:
            return self._failed(error)
        except self._broker.broken_by as error:
            self._broker.drop()
            return self._failed(error)
        self._failures = 0
        return NOTHING

    def _leave(self) -> None:
        self._step()
        self._broker.drop()

    def _failed(self, error: BaseException) -> float:
        self._failures += 1
        level = logging.WARNING if self._failures == 1 else logging.DEBUG
        logger.log(level, "pecker: events of local runs wait for the broker: %s", error)
        delay = self._backoff.seconds(self._failures, chance())
        self._retry_at = self.clock.monotonic() + delay
        return delay

    def _send(self) -> None:
        # The side channel has no publisher confirms: nothing would count these.
        channel = self._broker.side
        if channel is not self._channel:
            self._channel = channel
            self._dispatcher = self.app.events.Dispatcher(
                channel=channel, hostname=self.hostname, buffer_while_offline=False
            )
        while self._events:
            kind, fields = first = self._events[0]
            self._dispatcher.send(kind, **fields)
            with self._lock:
                if self._events and self._events[0] is first:
                    self._events.popleft()
        self._broker.note_reply()
