"""Schedulers and workers deliver the outboxes of their app, and end in good order."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from celery_pecker.testing import eventually
from example_project.processes import ProcessContainer
from tests.integration.outbox_relay.rows import column, record
from tests.nodes import READY

pytestmark = pytest.mark.cluster

APP = "tests.integration.outbox_relay.app"
ROOT = Path(__file__).parents[3]
WORDS = {
    "beat": ("beat", "-S", "pecker", "--pidfile="),
    "worker": ("worker", "-P", "solo", "--without-gossip", "--without-mingle"),
}

Start = Callable[[str], ProcessContainer]


@pytest.fixture
def start(dsn: str, redis_url: str, queue_name: str, tmp_path: Path) -> Iterator[Start]:
    """Give a way to start a scheduler or a worker of an app with an outbox."""
    with ExitStack() as stack:

        def make(kind: str) -> ProcessContainer:
            command = [sys.executable, "-m", "tests.lean", "-A", APP, *WORDS[kind]]
            process = ProcessContainer(
                [*command, "-l", "INFO"],
                name=kind,
                cwd=ROOT,
                env={
                    "PECKER_TEST_OUTBOX_DSN": dsn,
                    "PECKER_TEST_BROKER": redis_url,
                    "PECKER_TEST_QUEUE": queue_name,
                    "PECKER_TEST_FOLDER": str(tmp_path),
                },
            )
            stack.callback(process.remove)
            process.start()
            return process

        yield make


def until(process: ProcessContainer, condition: Callable[[], Any], said: str) -> None:
    """Wait until it came true, or fail with the log."""
    try:
        eventually(condition, 60.0, said)
    except AssertionError as error:
        error.add_note(process.life_log()[-3_000:])
        raise


@pytest.mark.parametrize("kind", ["beat", "worker"])
def test_what_is_recorded_is_delivered(
    kind: str,
    start: Start,
    outbox: psycopg.Connection[Any],
    redis_url: str,
    queue_name: str,
) -> None:
    """By a scheduler and by a worker; each says what it sent and ends at SIGTERM."""
    process = start(kind)
    record(outbox, 3, queue=queue_name)
    until(process, lambda: not column(outbox, "select id from pecker_outbox"), "sent")
    with redis.Redis.from_url(redis_url) as client:
        if kind == "worker":
            ran = f"{queue_name}:ran"
            until(process, lambda: client.get(ran) == b"3", "the worker ran them")
        else:
            assert client.llen(queue_name) == 3
    until(
        process,
        lambda: column(outbox, "select sent from pecker_outbox_relays") == [3],
        "the relay tells what it sent",
    )
    until(process, lambda: READY in process.life_log(), "the scheduler is ready")
    process.kill("SIGTERM")
    assert process.wait(60) == 0
    assert "Traceback" not in process.life_log()
