"""Real schedulers see the same trouble: one notice, whoever dies."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from celery_pecker.testing import eventually
from tests.nodes import READY, BeatNode, beat, worker

pytestmark = pytest.mark.cluster

APP = "tests.integration.alarms.duty_app"
ROOT = Path(__file__).parents[3]
RINGS = "alarm ringing: held: held: the gate holds back a slot of it"
STILL_THERE = """
update pecker_replicas set seen_at = now() + interval '1 hour' where held = '{held}'
"""
ROUNDS = "select epoch from pecker_alarm_rules where rule = 'silent'"

Start = Callable[[], BeatNode]


@pytest.fixture
def env(dsn: str, redis_url: str, queue_name: str, tmp_path: Path) -> dict[str, str]:
    """Give what the app of schedulers and workers reads."""
    return {
        "PECKER_TEST_QUEUE": queue_name,
        "PECKER_TEST_BROKER": redis_url,
        "PECKER_TEST_ALARMS_DSN": dsn,
        "PECKER_TEST_ALARMS": str(tmp_path),
    }


@pytest.fixture
def start(env: dict[str, str]) -> Iterator[Start]:
    """Give a way to start schedulers that end with the test."""
    with ExitStack() as stack:

        def make() -> BeatNode:
            node = beat(APP, name="beat", cwd=ROOT, env=env, scheduler="pecker")
            stack.callback(node.teardown)
            node.process.start()
            return node

        yield make


@pytest.fixture
def worker_node(queue_name: str, env: dict[str, str]) -> Iterator[Start]:
    """Give a way to start workers that are schedulers, and end with the test."""
    with ExitStack() as stack:

        def make() -> Any:
            options = ["-c", "1"]
            node: Any = worker(
                APP, name="duty", queue=queue_name, cwd=ROOT, env=env, options=options
            )
            stack.callback(node.teardown)
            node.container.process.start()
            return node.container

        yield make


def calls(folder: Path) -> list[list[str]]:
    """Return pid, id, event and subject of each call."""
    path = folder / "calls"
    return (
        [line.split() for line in path.read_text().splitlines()]
        if (path.exists())
        else []
    )


def rounds_pass(dsn: str, count: int = 3) -> None:
    """Wait until somebody has looked so many times more."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        epochs = {connection.execute(ROUNDS).fetchone()}

        def looked() -> bool:
            epochs.add(connection.execute(ROUNDS).fetchone())
            return len(epochs) > count

        eventually(looked, timeout=60.0)


def test_two_schedulers_ring_once(start: Start, dsn: str, tmp_path: Path) -> None:
    """In one log, and one call; the entry that runs does not ring."""
    nodes = [start(), start()]
    for node in nodes:
        node.container.await_words(READY)
    eventually(lambda: calls(tmp_path), timeout=60.0)
    rounds_pass(dsn)
    [[_, _, event, subject]] = calls(tmp_path)
    assert (event, subject) == ("ringing", "held")
    logs = [node.process.life_log() for node in nodes]
    assert [log.count(RINGS) for log in logs] in ([0, 1], [1, 0])
    assert not any("silent:" in log or "held: runs" in log for log in logs)


def test_what_is_held_is_not_silent_to_a_scheduler_that_has_just_begun(
    start: Start, dsn: str, tmp_path: Path
) -> None:
    """It looks when its gate has been asked, and not before."""
    before = start()
    eventually(lambda: calls(tmp_path), timeout=60.0)
    before.process.kill("SIGTERM")
    before.process.wait(60.0)
    after = start()
    rounds_pass(dsn)
    assert "silent: held" not in after.process.life_log()
    assert [call[3] for call in calls(tmp_path)].count("held") == 1


def test_what_workers_hold_is_not_silent_to_a_beat_that_cannot_know(
    start: Start,
    worker_node: Start,
    dsn: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its own gate is never asked for entries that run in workers."""
    monkeypatch.setenv("PECKER_TEST_ALARMS_LOCAL", "1")
    work = worker_node()
    held = "select count(*) from pecker_replicas where held = '{held}'"
    with psycopg.connect(dsn, autocommit=True) as connection:
        eventually(
            lambda: connection.execute(held).fetchone() == (1,), 60.0, "it says so"
        )
        beats = start()
        beats.container.await_words(READY)
        eventually(lambda: "held" in str(calls(tmp_path)), timeout=60.0)
        work.process.kill("SIGTERM")  # now beat is who looks

        def ended() -> bool:
            connection.execute(STILL_THERE)  # its row counts for 20 s
            return work.process.exit_code is not None

        eventually(ended, 60.0, "the worker has ended")
        connection.execute(STILL_THERE)
        rounds_pass(dsn)
    assert [call[2:] for call in calls(tmp_path) if call[3] == "held"] == [
        ["ringing", "held"]
    ]
    assert "silent: held" not in beats.process.life_log() + work.process.life_log()


def test_a_sender_that_is_killed_in_the_call_loses_none(
    start: Start, tmp_path: Path
) -> None:
    """A survivor sends what it held, after its hold."""
    (tmp_path / "kill").touch()
    nodes = [start(), start()]
    eventually(lambda: calls(tmp_path), timeout=90.0)
    died = (tmp_path / "died").read_text()
    assert died in {str(node.process.pid) for node in nodes}
    [[pid, _, event, subject]] = calls(tmp_path)
    assert pid != died
    assert (event, subject) == ("ringing", "held")


def test_a_worker_that_schedules_rings_too(worker_node: Start, tmp_path: Path) -> None:
    """No beat is needed, and the worker ends in good order while it looks."""
    process = worker_node().process
    eventually(lambda: calls(tmp_path), timeout=60.0)
    process.kill("SIGTERM")
    assert process.wait(60.0) == 0
    assert process.life_log().count(RINGS) == 1


def test_without_any_setting_the_log_says_what_is_silent_and_what_fails(
    queue_name: str, env: dict[str, str], dsn: str
) -> None:
    """Of which entry, since when, and what to do; nothing else rings."""
    app, options = "tests.integration.alarms.quiet_app", ["-c", "1"]
    node: Any = worker(
        app, name="quiet", queue=queue_name, cwd=ROOT, env=env, options=options
    )
    lock = "select from pecker_tasks where name = 'stuck' for update"
    with ExitStack() as stack:
        stack.callback(node.teardown)
        process = node.container.process
        process.start()
        connection = stack.enter_context(psycopg.connect(dsn))
        eventually(lambda: connection.execute(lock).rowcount == 1, 60.0, "a row")
        said = re.compile(
            r"ERROR.* alarm ringing: (\w+): (\w+): .* \(since [-0-9T:+]+\);"
            r" ask why: celery pecker explain NAME$",
            re.MULTILINE,
        )
        wanted = {("silent", "stuck"), ("failing", "fails")}
        eventually(
            lambda: {*said.findall(process.life_log())} >= wanted, 60.0, "both are said"
        )
        assert {*said.findall(process.life_log())} == wanted
