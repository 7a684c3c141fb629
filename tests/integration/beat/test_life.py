"""How ``celery beat -S pecker`` starts, waits and ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from psycopg.conninfo import conninfo_to_dict

from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.testing import EmbeddedPostgres, eventually
from tests.nodes import READY, BeatNode, beat

pytestmark = pytest.mark.cluster

APP = "tests.integration.beat.app"
ROOT = Path(__file__).parents[3]
SOON = 10.0
"""Seconds. One is promised and told in tests/chaos; this leaves room for a busy
machine."""

Start = Callable[..., BeatNode]


@pytest.fixture
def start(redis_url: str, queue_name: str) -> Iterator[Start]:
    """Give a way to start schedulers that end with the test."""
    with ExitStack() as stack:

        def make(dsn: str, scheduler: str = "pecker", timeout: int = 2) -> BeatNode:
            env = {
                "PECKER_TEST_BEAT_TIMEOUT": str(timeout),
                "PECKER_TEST_QUEUE": queue_name,
                "PECKER_TEST_BROKER": redis_url,
                "PECKER_TEST_BEAT_DSN": dsn,
            }
            node = beat(APP, name="beat", cwd=ROOT, env=env, scheduler=scheduler)
            stack.callback(node.teardown)
            node.process.start()
            return node

        yield make


def asked(node: BeatNode) -> set[int]:
    """Return the ports that the scheduler has connections to."""
    there = psutil.Process(node.process.pid).net_connections()
    return {port for one in there for port in one.raddr[1:]}


def test_sigterm_and_sigint_end_it_as_they_end_beat(start: Start, dsn: str) -> None:
    """At once, with beat's own exit code, and without a traceback."""
    # One of theirs with nothing to send: in the middle of a send it may live on.
    theirs = start(dsn, "celery.beat:Scheduler")
    ours = [start(dsn), start(dsn)]
    theirs.container.await_words("beat: Starting...")
    theirs.process.kill("SIGTERM")
    expected = theirs.process.wait(30.0)
    for node, word in zip(ours, ("SIGTERM", "SIGINT"), strict=True):
        node.container.await_words(READY)
        began = SYSTEM.monotonic()
        node.process.kill(word)
        try:
            assert node.process.wait(30.0) == expected == 0, word
        except subprocess.TimeoutExpired as error:
            error.add_note(f"{word}: {node.process.life_log()[-3000:]}")
            raise
        assert SYSTEM.monotonic() - began < SOON, word
        assert "Traceback" not in node.process.life_log()


def test_an_unreachable_server_is_waited_for(
    start: Start, own_postgres: Callable[..., EmbeddedPostgres]
) -> None:
    """No exit, no traceback: a line at once, one a minute, and then it is ready."""
    server = own_postgres(fast=True, migrated=True)
    server.stop()
    node = start(server.dsn)
    node.container.await_words("step failed")
    assert node.process.exit_code is None
    server.start()
    node.container.await_words(READY)
    assert "Traceback" not in node.process.life_log()
    assert "got no answer from postgres at 127.0.0.1" in node.process.life_log()


def test_a_stop_while_the_server_is_unreachable_is_as_quick(
    start: Start, own_postgres: Callable[..., EmbeddedPostgres]
) -> None:
    """A deploy in an outage, while it waits for the answer to its first statement."""
    server = own_postgres(fast=True, migrated=True)
    port = int(str(conninfo_to_dict(server.dsn)["port"]))
    server.freeze()
    node = start(server.dsn, timeout=60)
    eventually(lambda: port in asked(node), 30.0, "it connects")
    began = SYSTEM.monotonic()
    node.process.kill("SIGTERM")
    assert node.process.wait(30.0) == 0
    assert SYSTEM.monotonic() - began < SOON


def test_the_banner_is_shown_without_touching_anything(dsn: str) -> None:
    """Beat makes a lazy scheduler for it first: no thread, no connection, no check."""
    code = (
        "from tests.integration.beat.app import app\n"
        "from celery_pecker.beat import PeckerScheduler\n"
        "import threading\n"
        "app.conf.update(pecker_schema='jobs', pecker_dsn=None)\n"
        "print(PeckerScheduler(app, lazy=True).info, threading.active_count())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PECKER_TEST_BEAT_DSN": dsn},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout.strip() == ". pecker -> schema jobs 1"
