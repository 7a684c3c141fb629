"""Local entries in whole schedulers: what is claimed, by whom, and what it is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from celery.concurrency.thread import TaskPool as ThreadPool
from celery.schedules import schedule

from celery_pecker.kernel.clock import SYSTEM, SystemClock, to_us
from celery_pecker.kernel.settings import Settings
from celery_pecker.schedules.declarations.beat_schedule import BeatSchedule
from celery_pecker.schedules.local import LocalRunner
from celery_pecker.schedules.replica import Claimant, Replica
from celery_pecker.testing import eventually
from celery_pecker.testing.manual import ManualPecker
from celery_pecker.worker.replicas import Replicas
from tests.integration.local.hand import Gates, Notes

LOCAL = {"run": "local", "timeout": 0.9}


def test_only_a_local_slot_is_told_its_moments(dsn: str) -> None:
    """By the monotonic clock of the process that runs it."""
    app = Celery("proj", set_as_current=False)
    app.conf.beat_schedule = {
        "here": {"task": "t", "schedule": 1.0, "pecker": {"run": "local"}},
        "there": {"task": "t", "schedule": 1.0, "pecker": {"timeout": 0.9}},
    }
    with ManualPecker(app, dsn=dsn) as pecker:
        pecker.pass_time(2.0)
        sent = {one.name: one for one in pecker.turn() + pecker.publisher.sent}
        now = pecker.clock.monotonic()
    assert sent["there"].ends is sent["there"].latest is None
    here = sent["here"]
    assert here.ends is not None
    assert here.latest is not None
    assert here.latest <= here.ends <= now + 0.9
    assert here.ends > now - 1.2


def test_a_worker_has_as_many_threads_as_its_setting_says(dsn: str) -> None:
    """``pecker_local_threads``: what is due beyond them waits."""
    gates = Gates()
    app = Celery("proj", broker="memory://", set_as_current=False)
    app.conf.update(pecker_dsn=dsn, pecker_local_threads=2)
    app.task(name="waits", shared=False)(gates.wait)
    every = {"task": "waits", "schedule": 1.0, "pecker": {"run": "local"}}
    app.conf.beat_schedule = {f"{number}": every for number in range(4)}
    replicas = Replicas(
        SimpleNamespace(app=app, hostname="w@test", pool_cls=ThreadPool)
    )

    def runs() -> dict[str, int]:
        found: dict[str, int] = replicas.info()[1]["runs"]
        return found

    try:
        replicas.start()
        gates.arrived()
        gates.arrived()
        eventually(lambda: runs()["waiting"] >= 2, 30.0, "two wait for a thread")
        assert runs()["running"] == 2
    finally:
        gates.go.set()
        replicas.join(patient=True)


class Two:
    """Two workers' schedulers of local entries, in one process."""

    def __init__(self, app: Celery, dsn: str) -> None:
        app.conf.pecker_dsn = dsn
        settings = Settings.read(app.conf, main=app.main)
        claimants = {
            name: Claimant(app, BeatSchedule(app), settings, kind="local")
            for name in ("one", "two")
        }
        self.runners = {
            name: LocalRunner(
                app,
                now_us=claimant.timekeeper.now_us,
                hostname=name,
                wanted=lambda: False,
            )
            for name, claimant in claimants.items()
        }
        self.replicas: dict[str, Replica] = {
            name: Replica(claimants[name], runs=runner, freeze_heap=False)
            for name, runner in self.runners.items()
        }

    def start(self) -> None:
        """Both compete."""
        for replica in self.replicas.values():
            replica.start()

    def close(self) -> None:
        """Both have left."""
        for name, replica in self.replicas.items():
            replica.stop()
            assert replica.join(30.0)
            assert self.runners[name].join(30.0)
            replica.close_history(30.0)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Give what ends all."""
    with ExitStack() as made:
        yield made


def test_what_still_runs_in_one_worker_is_run_by_the_others(
    dsn: str, stack: ExitStack, gates: Gates
) -> None:
    """A run that does not end costs its own slot, none of the next."""
    app = Celery("proj", broker="redis://127.0.0.1:1/0", set_as_current=False)
    ran: list[str] = []
    stuck: list[str] = []

    @app.task(bind=True, name="proj.stick", shared=False)
    def stick(self: Any) -> None:
        ran.append(self.request.hostname)
        if not stuck:
            stuck.append(self.request.hostname)
            gates.wait()

    app.conf.beat_schedule = {
        "stick": {"task": stick.name, "schedule": 1.0, "pecker": LOCAL}
    }
    both = Two(app, dsn)
    stack.callback(both.close)
    stack.callback(gates.go.set)
    both.start()
    gates.arrived()
    eventually(lambda: len(ran) >= 5, 30.0, "the others run it")
    assert set(ran[1:]) == {"one", "two"} - {stuck[0]}
    gates.go.set()
    missed = [runner.stats()["missed"] for runner in both.runners.values()]
    assert missed == [0, 0]
    assert [replica.pending.refused for replica in both.replicas.values()] == [0, 0]


def test_the_broker_is_never_asked(dsn: str, stack: ExitStack) -> None:
    """Nothing listens at its address, and slots are run all the same."""
    app = Celery("proj", broker="redis://127.0.0.1:1/0", set_as_current=False)
    ran: list[float] = []

    @app.task(name="proj.note", shared=False)
    def note() -> None:
        ran.append(SYSTEM.monotonic())

    app.conf.beat_schedule = {
        "note": {"task": note.name, "schedule": 0.3, "pecker": {"run": "local"}}
    }
    both = Two(app, dsn)
    stack.callback(both.close)
    both.start()
    eventually(lambda: len(ran) >= 4, 30.0, "it runs")


class Tomorrow(SystemClock):
    """The clock of a host that is a day ahead."""

    __slots__ = ()

    def now(self) -> datetime:
        """Return the same time of the next day."""
        return super().now() + timedelta(days=1)


def test_runs_are_reported_by_the_clock_of_the_database(
    dsn: str, stack: ExitStack
) -> None:
    """Those without a deadline as well: the pages put all reports in one order."""
    app = Celery("proj", broker="redis://127.0.0.1:1/0", set_as_current=False)

    @app.task(name="proj.note", shared=False)
    def note() -> None: ...

    app.conf.beat_schedule = {
        "note": {
            "task": note.name,
            "schedule": schedule(1.0, relative=True),
            "pecker": {"run": "local"},
        }
    }
    app.conf.pecker_dsn = dsn
    notes = Notes()
    settings = Settings.read(app.conf, main=app.main)
    claimant = Claimant(app, BeatSchedule(app), settings, kind="local")
    runner = LocalRunner(
        app,
        now_us=claimant.timekeeper.now_us,
        clock=Tomorrow(),
        recorder=notes,
        wanted=lambda: False,
    )
    replica = Replica(claimant, runs=runner, freeze_heap=False)
    stack.callback(replica.close_history, 5.0)
    stack.callback(runner.join, 5.0)
    stack.callback(replica.join, 5.0)
    stack.callback(replica.stop)
    before = to_us(SYSTEM.now())
    replica.start()
    eventually(lambda: len(notes.at_us) >= 2, 30.0, "it ran")
    assert all(0 <= at_us - before < 60_000_000 for at_us in notes.at_us)
