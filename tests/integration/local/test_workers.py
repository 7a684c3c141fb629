"""Local runs in whole workers: without a broker, frozen, and as Flower sees them."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from celery_pecker.kernel.clock import SYSTEM, pause
from celery_pecker.testing import EmbeddedRedis, eventually
from example_project.processes import ProcessContainer

SECOND = 1_000_000
AWAY = float(os.environ.get("PECKER_TEST_BROKER_AWAY", "5"))
"""Seconds for which the broker is away."""
BRIEF = {"timeout": 0.8}
LONG = {"timeout": 1.0}
MISSED = re.compile(r"missed=(\d+)|(1) slot missed")
"""What a worker writes of slots for which the machine held it up."""
PLAIN = ("--without-gossip", "--without-mingle", "-l", "INFO")

pytestmark = pytest.mark.cluster


class Stand:
    """A worker with a per-second local task, and what the task wrote down."""

    def __init__(self, folder: Path, dsn: str, broker_url: str) -> None:
        self.folder = folder
        self.policy: dict[str, Any] = BRIEF
        self.conf = {"pecker_dsn": dsn, "broker_url": broker_url}
        self.stack = ExitStack()

    def start(self, *options: str, **conf: object) -> ProcessContainer:
        """A worker runs."""
        return self.celery("worker", *PLAIN, *options, **conf)

    def celery(self, *command: str, **conf: object) -> ProcessContainer:
        """A celery command of the app runs."""
        launcher = "celery" if command[0] == "flower" else "tests.lean"
        process = ProcessContainer(
            [
                *(sys.executable, "-m", launcher),
                *("-A", "tests.integration.local.worker_app", *command),
            ],
            name=command[0],
            env={
                "PECKER_TEST_FOLDER": str(self.folder),
                "PECKER_TEST_POLICY": json.dumps(self.policy),
                "PECKER_TEST_CONF": json.dumps({**self.conf, **conf}),
                "FLOWER_UNAUTHENTICATED_API": "true",
            },
        )
        self.stack.callback(process.remove)
        process.start()
        return process

    @property
    def ran(self) -> list[dict[str, Any]]:
        """What the task wrote down, in that order."""
        journal = self.folder / "journal"
        lines = journal.read_text().splitlines() if journal.exists() else []
        return [json.loads(line) for line in lines]

    def until(self, runs: int, within: float = 30.0) -> None:
        """It ran so often."""
        eventually(lambda: len(self.ran) >= runs, within, f"{runs} runs")

    def absent(self) -> int:
        """Return how many slots from the first to the last did not run; none twice."""
        due = [run["due_us"] for run in self.ran]
        assert due == sorted(set(due))
        return int(due[-1] - due[0]) // SECOND + 1 - len(due)


@pytest.fixture
def stand(tmp_path: Path, dsn: str) -> Iterator[Callable[[str], Stand]]:
    """Give a function that makes a stand on a broker."""
    with ExitStack() as stack:

        def make(broker_url: str) -> Stand:
            made = Stand(tmp_path, dsn, broker_url)
            stack.push(made.stack)
            return made

        yield make


@pytest.mark.slow
def test_without_a_broker_no_slot_is_lost(
    stand: Callable[[str], Stand], own_redis: Callable[..., EmbeddedRedis]
) -> None:
    """The database is enough. PECKER_TEST_BROKER_AWAY=60 takes a minute."""
    server = own_redis(fast=True)
    one = stand(server.url)
    one.policy = LONG
    worker = one.start("-E", "-c", "1")
    one.until(2)
    server.kill()
    lost = len(one.ran)
    one.until(lost + int(AWAY), AWAY + 30.0)
    server.start()
    one.until(len(one.ran) + 2)
    worker.stop()
    assert worker.exit_code == 0
    assert one.absent() <= sum(
        int(woke or one_of_them)
        for woke, one_of_them in MISSED.findall(worker.life_log())
    )
    assert "Connection to broker lost" in worker.life_log()


@pytest.mark.slow
def test_a_frozen_worker_starts_no_run_whose_deadline_is_over(
    stand: Callable[[str], Stand], redis_url: str
) -> None:
    """It may wake with a slot in hand: whatever it held then is not run."""
    one = stand(redis_url)
    worker = one.start("-P", "solo")
    one.until(2)
    for freeze in range(3):
        before = len(one.ran)
        one.until(before + 1)
        # At another place of a turn each time: before, in and after claim and run.
        due = one.ran[-1]["due_us"] / SECOND
        moment = due + 1.0 - 0.002 + freeze * 0.002
        pause(max(0.0, moment - SYSTEM.now().timestamp()))
        worker.kill("SIGSTOP")
        pause(1.0)
        worker.kill("SIGCONT")
        one.until(before + 2)
    worker.kill("SIGTERM")
    assert worker.wait(30.0) == 0
    for run in one.ran:
        assert run["left"] > 0.0
    due = [run["due_us"] for run in one.ran]
    assert due == sorted(set(due))


def test_flower_shows_local_runs_as_tasks(
    stand: Callable[[str], Stand], redis_url: str
) -> None:
    """Its API has them with their worker, state and result."""
    one = stand(redis_url)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    one.celery("flower", f"--port={port}", "--address=127.0.0.1")
    url = f"http://127.0.0.1:{port}/api/"

    def ask(what: str) -> Any:
        request = urllib.request.Request(url + what)  # noqa: S310  # of our own
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310
            return json.load(answer)

    eventually(lambda: ask("tasks") == {}, 30.0, "Flower", ignoring=(OSError,))
    one.start("-E", "-P", "solo", "-n", "one@host")

    def told() -> list[dict[str, Any]]:
        tasks = ask("tasks?taskname=locals.tick").values()
        return [task for task in tasks if task["state"] == "SUCCESS"]

    task = eventually(told, 30.0, "a local run in Flower")[0]
    assert (task["name"], task["worker"]) == ("locals.tick", "one@host")
    assert (task["result"], task["args"], task["kwargs"]) == ("'ticked'", "[]", "{}")
    assert task["received"] <= task["started"] <= task["succeeded"]
    assert len(one.ran) >= 1
