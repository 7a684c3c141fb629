"""A process that delivers an outbox, and strikes itself where it is told to.

    python -m tests.chaos.outbox.relaying DSN BROKER FOLDER

An order is a file FOLDER/PID that says ``after push KILL`` or ``before close STOP``:
the process carries it out the next time it comes to that point.
"""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

from celery_pecker.kernel.backoff import Backoff
from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.kernel.loop import Loop
from celery_pecker.outbox.entities import decode
from tests.integration.outbox_relay.making import POINTS, Made, stop_at

HOLD = 2.0
"""Seconds; short, so that a run waits less."""


class Orders:
    """What this process is told to do to itself."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / str(os.getpid())

    def come_to(self, point: str) -> None:
        """Carry out an order for this point."""
        try:
            order = self._path.read_text()
        except FileNotFoundError:
            return
        where, _, word = order.rpartition(" ")
        if where == point:
            self._path.unlink(missing_ok=True)
            os.kill(os.getpid(), signal.Signals[f"SIG{word}"])


def main(dsn: str, broker: str, folder: str) -> None:
    """Deliver until somebody ends the process."""
    made = Made(dsn, broker, hold=HOLD, timeout=0.5, decode=decode)
    orders = Orders(Path(folder))
    for point in POINTS:
        stop_at(made, point, partial(orders.come_to, point))

    def step() -> float:
        if not made.database.connected:
            made.relay.reconnected()
        return made.relay.step()

    options: dict[str, Any] = {"name": "chaos", "clock": SYSTEM}
    Loop(step, **options, backoff=Backoff(first=0.05, most=0.5)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
