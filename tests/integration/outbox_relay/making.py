"""Relays of an outbox, in this process or in one that dies at a chosen point.

python -m tests.integration.outbox_relay.making DSN BROKER HOLD POINT SIGNAL
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from celery import Celery

from celery_pecker.brokers.publisher.stored_messages import StoredPublisher
from celery_pecker.kernel.clock import SYSTEM, Clock, new_id
from celery_pecker.kernel.database import Database
from celery_pecker.outbox.relay.batches import Batches
from celery_pecker.outbox.relay.step import Relay
from tests.told import told

POINTS = [
    *("before claim", "after claim", "before read", "after read"),
    *("before push", "after push", "before close", "after close"),
]


class Made:
    """A relay and what it is made of."""

    def __init__(  # what tests vary
        self,
        dsn: str,
        broker: str,
        *,
        hold: float = 30.0,
        timeout: float = 2.0,
        clock: Clock = SYSTEM,
    ) -> None:
        self.app = Celery("relayed", broker=broker, set_as_current=False)
        self.database = Database(dsn, schema="public", timeout=5.0)
        self.batches = Batches(self.database, new_id(), hold=hold)
        self.publisher = StoredPublisher(self.app, timeout=timeout, clock=clock)
        self.relay = Relay(
            self.batches,
            self.publisher,
            clock=clock,
            hold=hold,
            interval=0.05,
        )

    def step(self) -> float:
        """Take a step in which it also looks for lapsed batches."""
        self.relay._reclaim_at = float("-inf")
        return self.relay.step()

    def close(self) -> None:
        """Give everything back."""
        self.publisher.close()
        self.database.close()
        self.app.close()


def stop_at(made: Made, point: str, act: Callable[[], None]) -> None:
    """Act when the relay comes to a point."""
    when, _, name = point.partition(" ")
    owner: Any = made.publisher if name == "push" else made.batches
    method = getattr(owner, name)

    def stopped(*args: Any, **kwargs: Any) -> Any:
        if when == "before":
            act()
        result = method(*args, **kwargs)
        if when == "after":
            act()
        return result

    setattr(owner, name, stopped)


def main(dsn: str, broker: str, hold: str, point: str, number: str) -> None:
    """Take a step, and send this process a signal at the point.

    One that is to die takes steps until it comes there: on a busy machine the first may
    be too late for its hold, and does nothing more then.
    """
    made = Made(dsn, broker, hold=float(hold))
    sent = signal.Signals(int(number))
    stop_at(made, point, lambda: os.kill(os.getpid(), sent))
    made.step()
    while sent is signal.SIGKILL:
        made.step()
    made.close()


if __name__ == "__main__":
    main(*told())
