"""Kinds of alarms ring by what they are about, in real processes: not by rows."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from celery_pecker.testing import eventually
from celery_pecker.testing.cluster import READY
from celery_pecker.testing.processes import ProcessContainer
from tests.integration.alarms import trouble_app as troubled

pytestmark = pytest.mark.cluster
ROOT = Path(__file__).parents[3]
WITHIN = 90.0


class Scene:
    """A worker of one app on one database, and what rings there."""

    def __init__(self, conf: dict[str, Any]) -> None:
        self.conf = conf
        self.queue = str(conf["task_default_queue"])
        """Named in each call: this process had its app before the settings."""
        self.all: list[ProcessContainer] = []
        self.rows = psycopg.connect(conf["pecker_dsn"], autocommit=True)

    def worker(self, queue: str) -> ProcessContainer:
        """Start a worker of a queue."""
        process = ProcessContainer(
            [
                *(
                    sys.executable,
                    "-m",
                    "tests.lean",
                    "-A",
                    troubled.__name__,
                    "worker",
                ),
                *("-P", "threads", "-c", "8", "-l", "INFO", "-Q", queue),
                *("-n", f"{queue}@{{id}}"),
            ],
            name=queue,
            cwd=ROOT,
            env={troubled.CONF: json.dumps(self.conf)},
        )
        self.all.append(process)
        process.start()
        return process

    def close(self) -> None:
        """Leave nothing running."""
        for one in self.all:
            one.remove()

    def told(self, rule: str, event: str = "ringing") -> list[str]:
        """Return the lines of notices of a rule."""
        words = f"pecker: alarm {event}: {rule}: "
        logs = "\n".join(one.life_log() for one in self.all)
        return [line for line in logs.splitlines() if words in line]

    def until(self, rule: str, *words: str, event: str = "ringing") -> None:
        """Wait until a notice of a rule has said all of these words."""
        try:
            eventually(
                lambda: any(
                    all(word in line for word in words)
                    for line in self.told(rule, event)
                ),
                WITHIN,
                f"{rule}: {words}",
            )
        except AssertionError as error:
            error.add_note(f"{self.rows.execute('table pecker_alarms').fetchall()}")
            for one in self.all:
                error.add_note(f"{one.name}:\n{one.life_log()[-3000:]}")
            raise


@pytest.fixture(scope="module")
def scene(postgres_server: Any, redis_server: Any) -> Iterator[Scene]:
    """Give an app in trouble: one worker that is its scheduler and its host, too."""
    with ExitStack() as stack:
        dsn = stack.enter_context(postgres_server.fresh(migrated=True))
        queue = f"trouble-{os.getpid()}"
        conf: dict[str, Any] = {
            "broker_url": redis_server.url,
            "task_default_queue": queue,
            "pecker_dsn": dsn,
        }
        troubled.app.conf.update(conf)
        made = Scene(conf)
        stack.callback(made.rows.close)
        process = made.worker(queue)
        stack.callback(made.close)
        eventually(
            lambda: READY in process.life_log() or process.exit_code is not None,
            WITHIN,
            "the worker is ready",
        )
        assert process.exit_code is None, process.life_log()
        yield made


def test_an_entry_whose_row_somebody_locks_is_silent_and_then_misfired(
    scene: Scene,
) -> None:
    """Claims pass over a locked row; the slots of that time are missed afterwards."""
    with psycopg.connect(scene.conf["pecker_dsn"]) as other:
        other.execute("select from pecker_tasks where name = 'locked' for update")
        scene.until("silent", "locked: no slot of it was won for")
    scene.until("silent", "locked", event="recovered")
    scene.until("misfire", "locked: ", "of its slots passed without a run")


def test_an_entry_whose_runs_fail_is_failing(scene: Scene) -> None:
    """With the error of its last run."""
    scene.until("failing", "fails: ", "no such table")


def test_an_entry_whose_runs_end_by_their_deadline_overruns(scene: Scene) -> None:
    """Counted by the reports of the worker."""
    scene.until("overrun", "overruns: ", "of its runs overran their timeout")


def test_a_job_that_fails_rings(scene: Scene) -> None:
    """With its error."""
    troubled.broken.apply_async(([1],), queue=scene.queue)
    scene.until("job_failed", "broken ", "the job has failed: ", "no such file")


def test_a_message_that_failed_to_its_last_attempt_is_parked(scene: Scene) -> None:
    """By its task, with the error."""
    troubled.outbox.send(troubled.parks.s().set(queue=scene.queue))
    scene.until("outbox_parked", "parks: 1 recorded tasks are parked", "no such table")


def test_an_observer_that_fails_to_the_end_is_parked(scene: Scene) -> None:
    """By its name, with the error."""
    troubled.failing.start("doomed")
    scene.until("observer_parked", "doomed: it is parked after", "cannot go on")
