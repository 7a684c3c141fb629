"""A worker that does all that there is, and one round of work of every kind for it."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from celery_pecker.kernel.errors import PeckerError
from celery_pecker.observers import Place
from celery_pecker.testing import eventually
from celery_sharding.ledger import at
from celery_sharding.model import Outcome, Stage
from example_project.processes import ProcessContainer
from tests.constants import constants
from tests.integration.surroundings import whole_app

ROOT = Path(__file__).parents[3]
PATIENT = 60.0
"""Seconds for what takes some on a machine that does nothing else."""
AWAY = (psycopg.OperationalError, PeckerError)
ITEMS = 40
TICKS = 3


class Stand:
    """An app with rows of every kind, its workers, and what these noted."""

    def __init__(self, conf: dict[str, Any], stack: ExitStack) -> None:
        self._conf = conf
        self._stack = stack
        self.whole = whole_app.make(conf)
        stack.callback(self.whole.app.close)
        stack.callback(at(self.whole.app).close)
        stack.callback(self.whole.outbox.close)
        stack.callback(self.whole.observers.close)
        self.workers: list[ProcessContainer] = []
        self._jobs: dict[int, Any] = {}
        with self._connect() as connection:
            connection.execute(whole_app.NOTES)

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._conf["pecker_dsn"], prepare_threshold=None)

    def worker(self, **conf: Any) -> None:
        """Start a worker, with settings of its own."""
        name = f"w{len(self.workers)}@{{id}}"
        quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat")
        self.process("worker", "-c", "2", "-l", "INFO", "-n", name, *quiet, **conf)

    def process(self, *words: str, **conf: Any) -> None:
        """Start a command of the app, with settings of its own."""
        process = ProcessContainer(
            [sys.executable, "-m", "tests.lean", "-A", whole_app.__name__, *words],
            name=f"w{len(self.workers)}",
            cwd=ROOT,
            env={
                whole_app.CONF: json.dumps({**self._conf, **conf}),
                **constants(longest_hold=5.0, resend=2.0),
            },
        )
        self.workers.append(process)
        self._stack.callback(process.remove)
        process.start()

    def begin(self, number: int) -> None:
        """Commit a round: an observer, a job, and a row of the outbox of each mode."""
        app, outbox, observers = self.whole
        with self._connect() as connection:
            observers.start("watch", f"watch {number}", connection=connection)
            for mode in ("relay", "until_done"):
                task = app.tasks[f"whole.{'relayed' if mode == 'relay' else 'lasting'}"]
                outbox.send(task.s(number), connection=connection, mode=mode)
        first = number * ITEMS
        items = [*range(first, first + ITEMS)]
        self._jobs[number] = app.tasks["whole.items"].apply_async((items,))

    def ends(self, number: int, *, lossy: bool = False) -> None:
        """Wait until all of a round is done, and slots are still sent.

        Each thing once, except where a broker may have lost messages.
        """
        first = number * ITEMS
        job = self._jobs[number]
        self.until(lambda: job.progress.stage is Stage.ENDED, "the job has ended")
        assert job.progress.outcome is Outcome.SUCCEEDED
        assert sorted(job.results()) == [*range(first, first + ITEMS)]
        self.until(lambda: self._noted("lasting")[str(number)] > 0, "until done")
        if not lossy:
            self.until(lambda: self._noted("relayed")[str(number)] > 0, "relayed")
        self.goes_on(number)
        if not lossy:
            wanted = {str(number): 1}
            assert self._noted("lasting", str(number)) == wanted
            assert self._noted("relayed", str(number)) == wanted
        assert max(self._noted("tick").values()) == 1

    def goes_on(self, number: int) -> None:
        """Wait until the observer of a round and the schedule have noted more."""
        self._more("watch", f"watch {number}")
        self._more("tick", None)

    def stop(self, number: int) -> None:
        """Stop the observer of a round, and wait for its end."""
        observers, name = self.whole.observers, f"watch {number}"
        observers.stop(name)

        def gone() -> bool:
            row = observers.status(name)
            return row is None or row.place is Place.GONE

        self.until(gone, "the observer is gone")

    def _more(self, kind: str, what: str | None) -> None:
        before = self._noted(kind, what).total()
        self.until(
            lambda: self._noted(kind, what).total() >= before + TICKS,
            f"{TICKS} notes more of {what or kind}",
        )

    def _noted(self, kind: str, what: str | None = None) -> Counter[str]:
        with self._connect() as connection:
            rows = connection.execute(
                "select what from notes where kind = %s"
                " and (%s::text is null or what = %s)",
                [kind, what, what],
            ).fetchall()
        return Counter(text for (text,) in rows)

    def until(self, condition: Any, said: str) -> None:
        """Wait until it came true; a failure has the logs."""
        try:
            eventually(condition, PATIENT, said, interval=0.1, ignoring=AWAY)
        except AssertionError as error:
            for process in self.workers:
                error.add_note(process.life_log()[-6000:])
            raise


@contextmanager
def stand(dsn: str, broker: str, queue: str, **conf: Any) -> Iterator[Stand]:
    """Give a stand on a database and a broker; `conf` are settings."""
    with ExitStack() as stack:
        yield Stand(
            {
                "pecker_dsn": dsn,
                "broker_url": broker,
                "task_default_queue": queue,
                **conf,
            },
            stack,
        )
