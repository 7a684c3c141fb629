"""Kill a relay that has pushed a batch and has not deleted it yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from celery_pecker.testing import eventually
from example_project.billing.tasks import execute
from example_project.pace import LOST_AFTER
from example_project.processes import ProcessContainer


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """A relay that died between its push and its delete."""

    relay: ProcessContainer
    batch: int
    messages: int
    """On the broker, and still in the table."""


def kill_between(
    dsn: str, relays: Sequence[ProcessContainer], supply: Callable[[], None]
) -> Killed:
    """Kill the relay of the newest message, after its push and before its delete.

    A transaction holds the message's row. Relays claim, read and push without any lock
    on it, and then their delete has to wait: that is the moment.

    Args:
        dsn: of the database with the outbox.
        relays: the processes, one of which is killed.
        supply: sees to it that messages come; called until one is met.

    Raises:
        AssertionError: no relay came there within `LOST_AFTER` seconds.
    """
    with (
        psycopg.connect(dsn) as pin,
        psycopg.connect(dsn, autocommit=True) as observer,
    ):
        number = eventually(lambda: _pinned(pin, supply), LOST_AFTER, "a message waits")
        [(process, backend, batch, messages)] = eventually(
            lambda: execute(
                observer, "billing_stuck", pinned=pin.info.backend_pid, id=number
            ).fetchall(),
            LOST_AFTER,
            "a relay has pushed the message",
        )
        [relay] = [one for one in relays if one.pid == process]
        relay.kill("SIGKILL")
        # PostgreSQL would still do what it was asked for over this connection.
        execute(observer, "billing_cut", backend=backend)
        pin.rollback()
    return Killed(relay=relay, batch=batch, messages=messages)


def _pinned(pin: psycopg.Connection[Any], supply: Callable[[], None]) -> int | None:
    supply()
    row = execute(pin, "billing_pin").fetchone()
    if row is None:
        pin.rollback()
        return None
    return int(row[0])
