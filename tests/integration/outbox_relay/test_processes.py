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

from celery_pecker.kernel.figures import AGE, DEPTH, SENT, Cell, merged, read
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


def figures(outbox: psycopg.Connection[Any], subject: str) -> Cell:
    """Return what was counted of a subject."""
    rows = outbox.execute("select figures ->> %s from pecker_figures", [subject])
    return merged(read(text) for (text,) in rows if text)


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
    for subject in ("outbox", f"queue {queue_name}"):
        assert figures(outbox, subject)[SENT] == 3, subject


def test_what_waits_is_counted_for_charts(
    start: Start, outbox: psycopg.Connection[Any], queue_name: str
) -> None:
    """Depth and age by task and queue: rows of an hour ago that no relay may have."""
    record(outbox, 2, queue=queue_name)
    outbox.execute(
        "with late as (update pecker_outbox set created_at = now() - interval '1 hour'"
        " returning id)"
        " insert into pecker_outbox_batches"
        " (token, ids, holder, epoch, hold, held_until, created_at)"
        " select gen_random_uuid(), array_agg(id), gen_random_uuid(), 1,"
        " interval '1 hour', now() + interval '1 hour', now() from late"
    )
    process = start("beat")
    until(process, lambda: READY in process.life_log(), "the scheduler is ready")
    process.kill("SIGTERM")
    assert process.wait(60) == 0
    queue = figures(outbox, f"queue {queue_name}")
    assert queue[DEPTH] == 2
    assert queue[AGE] >= 3_600_000
