"""A relay dies, or is frozen, at each point of a step; another one goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import psycopg
import pytest

from celery_pecker.testing import eventually
from tests.integration.outbox_relay.conftest import Makes
from tests.integration.outbox_relay.making import POINTS
from tests.integration.outbox_relay.rows import column, record
from tests.integration.outbox_relay.wires import RabbitWire, RedisWire
from tests.told import telling

LEFT = "select id from pecker_outbox"
HELD = "select batch from pecker_outbox_batches"
TASKS = "select task_id from pecker_outbox"
DOUBLED = {"after push", "before close"}
"""Where RabbitMQ has the messages, and the table does not know it."""


def child(
    dsn: str, broker: str, point: str, sent: signal.Signals
) -> subprocess.Popen[bytes]:
    """Start a relay that sends itself a signal at a point of its first step."""
    module = "tests.integration.outbox_relay.making"
    hold = "0.5" if sent is signal.SIGKILL else "1.0"
    return subprocess.Popen(
        [sys.executable, "-m", module],
        env=telling(dsn, broker, hold, point, str(int(sent))),
    )


@pytest.mark.parametrize("point", POINTS)
def test_nothing_is_lost_wherever_a_relay_dies(
    dsn: str,
    outbox: psycopg.Connection[Any],
    makes: Makes,
    wire: RedisWire | RabbitWire,
    point: str,
) -> None:
    """On Redis nothing is doubled either; on RabbitMQ under the same task's id."""
    record(outbox, 20, queue=wire.queue)
    tasks = {*column(outbox, TASKS)}
    dead = child(dsn, wire.url, point, signal.SIGKILL)
    assert dead.wait(60) == -signal.SIGKILL
    other = makes(wire.url)

    def delivered() -> bool:
        other.step()
        return not column(outbox, LEFT) and not column(outbox, HELD)

    eventually(delivered, 30.0, "the other relay delivers all")
    found = wire.task_ids()
    assert found.keys() == tasks
    most = 2 if not wire.exact and point in DOUBLED else 1
    assert {*found.values()} == {most}


@pytest.mark.parametrize("point", ["before push", "after push"])
def test_a_frozen_relay_sends_nothing_when_it_wakes_up(
    dsn: str,
    outbox: psycopg.Connection[Any],
    makes: Makes,
    wire: RedisWire | RabbitWire,
    point: str,
) -> None:
    """Its batch is another's by then: it neither pushes nor deletes."""
    record(outbox, 5, queue=wire.queue)
    tasks = {*column(outbox, TASKS)}
    frozen = child(dsn, wire.url, point, signal.SIGSTOP)
    try:
        _, status = os.waitpid(frozen.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        other = makes(wire.url)

        def delivered() -> bool:
            other.step()
            return not column(outbox, LEFT)

        eventually(delivered, 30.0, "the other relay delivers all")
        later = record(outbox, 1, queue=wire.queue)
        frozen.send_signal(signal.SIGCONT)
        assert frozen.wait(60) == 0
    finally:
        frozen.kill()
        frozen.wait()
    assert column(outbox, LEFT) == later, "it has deleted nothing of others"
    assert column(outbox, HELD) == []
    found = wire.task_ids()
    assert found.keys() == tasks
    doubled = not wire.exact and point == "after push"
    assert {*found.values()} == {2 if doubled else 1}
