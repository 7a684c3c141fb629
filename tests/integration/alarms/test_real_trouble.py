"""Kinds of alarms ring by what they are about, in real processes: not by rows."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from celery_pecker.schedules import Schedules
from celery_pecker.testing import eventually
from example_project.processes import ProcessContainer
from tests.database_clock import DatabaseClock
from tests.integration.alarms import trouble_app as troubled
from tests.integration.alarms.scene import WITHIN, Scene

pytestmark = pytest.mark.cluster


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
            "throttle_redis_url": redis_server.url,
        }
        troubled.app.conf.update(conf)
        made = Scene(troubled, conf)
        process = made.worker(queue)
        stack.callback(made.close)
        made.ready(process)
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
    scene.until("outbox_parked", "parks: 1 recorded task is parked", "no such table")


def test_an_observer_that_fails_to_the_end_is_parked(scene: Scene) -> None:
    """By its name, with the error; and its signature, which nothing can write."""
    troubled.failing.start("doomed")
    scene.until("observer_parked", "doomed: it is parked after", "cannot go on")
    failed = "select 1 from pecker_observer_notices where last_error is not null"
    eventually(lambda: scene.rows.execute(failed).fetchone(), WITHIN, "it was tried")
    scene.rows.execute("update pecker_observer_notices set held_until = now()")
    scene.until("observer_notices", "parked doomed #", "not sent: TypeError")


def test_a_host_of_observers_that_is_killed_rings_until_it_is_back(
    scene: Scene,
) -> None:
    """With what would start it anew: nobody says goodbye for it."""
    up = "select pid from pecker_observer_nodes where name = 'other-0' and state = 'up'"

    def begun() -> tuple[ProcessContainer, int]:
        words = ("pecker", "observe", "--name", "other", "--hosts", "1")
        process = scene.start("other", *words)
        eventually(lambda: scene.rows.execute(up).fetchall(), WITHIN, "it is up")
        [(pid,)] = scene.rows.execute(up).fetchall()
        return process, pid

    supervisor, pid = begun()
    supervisor.kill("SIGSTOP")
    os.kill(pid, signal.SIGKILL)
    supervisor.kill("SIGKILL")
    scene.until("observer_host", "other-0: the host of observers stopped without")
    begun()
    scene.until("observer_host", "other-0", event="recovered")


def test_a_run_that_waited_while_its_schedule_was_edited_is_overtaken(
    scene: Scene,
) -> None:
    """Its message lies in a queue; slots of another period are won meanwhile."""
    schedules = Schedules(troubled.app)
    waits = f"{scene.queue}-waits"
    control = troubled.app.control

    def edited(schedule: float, timeout: float, queue: str) -> None:
        schedules.set(
            "edited",
            task="nothing",
            schedule=schedule,
            timeout=timeout,
            options={"queue": queue},
        )

    def won() -> int:
        text = "select epoch from pecker_tasks where name = 'edited'"
        [(epoch,)] = scene.rows.execute(text).fetchall()
        return int(epoch)

    try:
        edited(10.0, 9.5, waits)
        before = eventually(won, WITHIN, "its slot is won, and the message waits")
        edited(0.5, 0.4, scene.queue)
        eventually(lambda: won() > before, WITHIN, "a later slot is won")
        control.add_consumer(waits, reply=True, timeout=5.0)
        scene.until("overtaken", "edited: 1 of its runs were overtaken")
    finally:
        schedules.remove("edited")
        schedules.close()


def test_a_database_at_its_limit_is_shut_and_opens_again(scene: Scene) -> None:
    """By statements that a task sends, as the gate of the schedules counts them."""
    troubled.floods.apply_async((20.0,), queue=scene.queue)
    scene.until("shut", "main: the gate lets nothing through to it")
    scene.until("shut", "main", event="recovered")


def test_a_database_whose_clock_steps_back_rings(
    postgres_server: Any, scene: Scene
) -> None:
    """In a worker of its own, since the clock is wrong for all that read it."""
    with (
        postgres_server.fresh(migrated=True) as dsn,
        DatabaseClock(dsn) as clock,
    ):
        queue = f"{scene.queue}-clock"
        conf = {**scene.conf, "pecker_dsn": clock.dsn, "task_default_queue": queue}
        late = Scene(troubled, conf)
        try:
            late.ready(late.worker(queue))
            looked = "select recorded from pecker_alarm_rules where rule = 'clock'"
            eventually(
                lambda: late.rows.execute(looked).fetchone() == (True,),
                WITHIN,
                "somebody knows what time it was",
            )
            clock.step(-timedelta(minutes=10))
            late.until("clock", "database: the clock of the database stepped back by")
        finally:
            late.close()
