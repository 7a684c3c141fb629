"""Measures one of them: ``python -m benchmarks.outbox.peers``, with an environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import psycopg
import redis
from psycopg import sql

from benchmarks.outbox.peers.asked import SEEN
from benchmarks.peers.environment import ENVIRONMENT, given
from benchmarks.schedules.arrivals import spread
from celery_pecker.kernel.clock import chance

READY = 60.0
REST = 0.15
"""Seconds between two commits at most, so that they hit any phase of a look."""
POLL = 0.02
SLOWEST = 50
"""Messages a second below which it is given up."""

Call = Callable[[int], object]
Transaction = Callable[[], AbstractContextManager[object]]


class Undo(Exception):
    """Roll back."""


def main() -> None:
    """Consume, or measure and write the figures into a file."""
    peer = import_module(f"benchmarks.outbox.peers.{given('PEER')}")
    if given("CONSUMES"):
        peer.consume()
        return
    peer.install()
    with peer.sender() as (call, transaction):
        Path(given("FILE")).write_text(json.dumps(measured(peer, call, transaction)))


def measured(peer: Any, call: Call, transaction: Transaction) -> dict[str, object]:
    """Return what calls, commits, the way and many messages take."""
    calls, rows = int(given("CALLS")), int(given("ROWS"))
    found: dict[str, object] = {"calls_rate": _calls(call, transaction, calls)}
    if not peer.TABLE:
        return found
    began = time.perf_counter()
    for number in range(calls // 2):
        with transaction():
            call(number)
    found["commits_rate"] = round(calls // 2 / (time.perf_counter() - began))
    with (
        psycopg.connect(given("DSN"), autocommit=True) as connection,
        redis.Redis.from_url(given("BROKER"), socket_timeout=2 * READY) as broker,
        _consumer(),
    ):
        there = sql.SQL("select exists (select from {})").format(
            sql.Identifier(given("SCHEMA"), peer.TABLE)
        )

        def empty(timeout: float) -> None:
            until = time.monotonic() + timeout
            while connection.execute(there).fetchone() != (False,):
                if time.monotonic() > until:
                    message = f"rows are left after {timeout:.0f} s"
                    raise TimeoutError(message)
                time.sleep(POLL)

        with transaction():
            call(SEEN)
        broker.blpop([given("QUEUE")], timeout=READY)
        empty(READY)
        with transaction():
            for number in range(rows):
                call(number)
        began = time.monotonic()
        empty(rows / SLOWEST + READY)
        found["rate"] = round(rows / (time.monotonic() - began))
        took = []
        for _ in range(int(given("COMMITS"))):
            broker.delete(given("QUEUE"))
            time.sleep(REST * chance())
            with transaction():
                call(SEEN)
            began = time.perf_counter()
            if broker.blpop([given("QUEUE")], timeout=READY) is None:
                message = f"nothing came in {READY:.0f} s"
                raise TimeoutError(message)
            took.append(time.perf_counter() - began)
        found["ms"] = spread(took, scale=1e3, digits=1)
    return found


def _calls(call: Call, transaction: Transaction, calls: int) -> int:
    rate = 0
    for times in (calls // 10, calls):  # the first ones load what they need
        began = time.perf_counter()
        with suppress(Undo), transaction():
            for number in range(times):
                call(number)
            rate = round(times / (time.perf_counter() - began))
            raise Undo
    return rate


@contextmanager
def _consumer() -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.outbox.peers"],
        env={**os.environ, ENVIRONMENT + "CONSUMES": "1"},
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
