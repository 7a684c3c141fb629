"""The relay as a process: ``python -m benchmarks.outbox.relaying``."""

from __future__ import annotations

import signal

from benchmarks.outbox.field import build
from benchmarks.peers.environment import given
from celery_pecker.schedules.replica.relays import Relays


def main() -> None:
    """Deliver until SIGTERM."""
    app, _, _ = build(given("BROKER"), given("DSN"), given("SCHEMA"), given("QUEUE"))
    relays = Relays(app, kind="bench")
    signal.signal(signal.SIGTERM, lambda *_: relays.stop())
    relays.start()
    while not relays.join(1.0):
        continue


if __name__ == "__main__":
    main()
