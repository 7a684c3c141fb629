"""Workers that are processes of their own, and what they wrote down."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from celery import Celery
from psycopg.rows import tuple_row

from celery_pecker.testing import eventually
from celery_sharding.ledger import at
from example_project.processes import ProcessContainer
from tests.constants import constants
from tests.integration.sharding.disconnect import disconnect
from tests.integration.sharding.worker import jobs_app

ROOT = Path(__file__).parents[4]
READY = "ready."


class Jobs:
    """An app, its workers, and the tables."""

    def __init__(self, conf: dict[str, Any], stack: ExitStack) -> None:
        self._env = constants(flush=0.1, sweep=0.5, **conf.pop("constants", {}))
        self.conf = conf
        self.app: Celery = jobs_app.make(conf)
        self.note: Any = self.app.tasks["jobs.note"]
        self._stack = stack
        self._connection = stack.enter_context(
            psycopg.connect(conf["pecker_dsn"], autocommit=True, row_factory=tuple_row)
        )
        self._connection.execute(jobs_app.SEEN)
        stack.callback(self._close)

    def _close(self) -> None:
        at(self.app).close()
        disconnect(self.app)

    def worker(self, *options: str) -> ProcessContainer:
        """Return a worker that is ready; `options` are those of its command."""
        app = "tests.integration.sharding.worker.jobs_app"
        process = ProcessContainer(
            [
                *(sys.executable, "-m", "tests.lean", "-A", app, "worker"),
                *("-l", "info", "-n", "w{id}@test", *options),
            ],
            name="worker",
            cwd=ROOT,
            env={jobs_app.CONF: json.dumps(self.conf), **self._env},
        )
        self._stack.callback(process.remove)
        process.start()
        eventually(
            lambda: READY in process.life_log() or process.exit_code is not None,
            30.0,
            "the worker is ready",
        )
        assert process.exit_code is None, process.life_log()
        return process

    def rows(self, query: str, *given: object) -> list[tuple[Any, ...]]:
        """Return what the database has."""
        return self._connection.execute(query.encode(), given).fetchall()

    def seen(self) -> Counter[str]:
        """Return how often each item was begun."""
        return Counter(item for (item,) in self.rows("select item from seen"))

    def pids(self) -> list[int]:
        """Return which processes began items, in the order of these."""
        return [pid for (pid,) in self.rows("select pid from seen order by nth")]

    def held(self) -> int:
        """Return how many tickets somebody holds."""
        ((count,),) = self.rows(
            "select count(*) from pecker_tickets where state = 'held'"
        )
        return int(count)


@pytest.fixture
def jobs(dsn: str, redis_url: str, queue_name: str) -> Iterator[Callable[..., Jobs]]:
    """Give a function that makes an app; its arguments are settings."""
    with ExitStack() as stack:

        def made(**settings: object) -> Jobs:
            conf = {
                "broker_url": redis_url,
                "result_backend": redis_url,
                "task_default_queue": queue_name,
                "worker_prefetch_multiplier": 1,
                "pecker_dsn": dsn,
                "pecker_worker": ["scheduler"],
                **settings,
            }
            return Jobs(conf, stack)

        yield made
