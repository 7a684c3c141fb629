"""A process that delivers an outbox, and strikes itself where it is told to.

python -m tests.chaos.outbox.relaying DSN BROKER QUEUE FOLDER
"""

from __future__ import annotations

from typing import Any

from celery_pecker.kernel.backoff import Backoff
from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.kernel.loop import Loop
from tests.chaos.outbox.strikes import Strikes
from tests.integration.outbox_relay.making import Made
from tests.told import told

HOLD = 2.0
"""Seconds; short, so that a run waits less."""


def main(dsn: str, broker: str, _queue: str, folder: str) -> None:
    """Deliver until somebody ends the process."""
    made = Made(dsn, broker, hold=HOLD, timeout=0.5)
    strikes = Strikes(folder)
    strikes.watch(made.batches, "claim", "reclaim", "read", "close")
    strikes.watch(made.publisher, "push")

    def step() -> float:
        if not made.database.connected:
            made.relay.reconnected()
        return made.relay.step()

    options: dict[str, Any] = {"name": "chaos", "clock": SYSTEM}
    Loop(step, **options, backoff=Backoff(first=0.05, most=0.5)).run()


if __name__ == "__main__":
    main(*told())
