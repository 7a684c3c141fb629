"""Workers that are processes of their own, by name."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
from celery import Celery
from celery.utils.nodenames import worker_direct
from kombu import Queue
from psycopg.rows import tuple_row

from celery_pecker.testing import eventually
from celery_sharding.ledger import at
from example_project.processes import ProcessContainer
from tests.constants import constants
from tests.integration.sharding.placement import placed_app

ROOT = Path(__file__).parents[4]


class Cluster:
    """An app, its workers, and the tables."""

    def __init__(self, conf: dict[str, Any], stack: ExitStack) -> None:
        self.conf = conf
        self.app: Celery = placed_app.make(conf)
        self._note: Any = self.app.tasks["placed.note"]
        self._stack = stack
        self._connection = stack.enter_context(
            psycopg.connect(conf["pecker_dsn"], autocommit=True, row_factory=tuple_row)
        )
        self._connection.execute(placed_app.RAN)
        self._connection.execute(placed_app.GIVEN)
        stack.callback(self._close)

    def _close(self) -> None:
        at(self.app).close()
        self.app.close()

    def worker(self, name: str, *options: str) -> ProcessContainer:
        """Return a worker, started; `options` are those of its command.

        Its name is one that no other test's worker has: its own queue bears it.
        """
        name = f"{name}@{self.conf['task_default_queue']}"
        self._stack.callback(self._forget, worker_direct(name))
        process = ProcessContainer(
            [
                *(
                    sys.executable,
                    "-m",
                    "tests.lean",
                    "-A",
                    placed_app.__name__,
                    "worker",
                ),
                *("-l", "info", "-n", name, *options),
            ],
            name=name,
            cwd=ROOT,
            env={
                placed_app.CONF: json.dumps(self.conf),
                **constants(flush=0.1, sweep=0.5),
            },
        )
        self._stack.callback(process.remove)
        process.start()
        return process

    def _forget(self, queue: Queue) -> None:
        with self.app.connection_for_write() as connection:
            queue(connection.default_channel).delete()

    def known(self, count: int) -> None:
        """So many workers are known as executors."""
        eventually(
            lambda: len(self.rows("select from pecker_executors")) == count,
            60.0,
            f"{count} workers are known",
        )

    def call(self, items: int, pace: Mapping[str, float]) -> str:
        """Return the id of a job: `pace` is how long an item takes, by worker."""
        return str(self._note.apply_async(([*range(items)],), dict(pace)).id)

    def ended(self, task_id: str) -> str | None:
        """Return the outcome of a job, None: it goes on."""
        ((outcome,),) = self.rows(
            "select outcome from pecker_jobs where task_id = %s", task_id
        )
        return None if outcome is None else str(outcome)

    def rows(self, query: str, *given: object) -> list[tuple[Any, ...]]:
        """Return what the database has."""
        return self._connection.execute(query.encode(), given).fetchall()

    def owners(self) -> dict[int, str]:
        """Return whose each shard is."""
        return dict(self.rows("select shard, owner from pecker_shards"))

    def ran(self) -> dict[int, set[str]]:
        """Return which workers ran items of each shard."""
        found: dict[int, set[str]] = {}
        for shard, hostname in self.rows("select distinct shard, hostname from ran"):
            found.setdefault(shard, set()).add(hostname)
        return found

    def given(self) -> Counter[str]:
        """Return how many tickets came to each worker."""
        return Counter(name for (name,) in self.rows("select hostname from given"))
