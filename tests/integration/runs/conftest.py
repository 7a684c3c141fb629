"""A worker's tasks in this process: Celery's own tracer, and our guard around them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from celery import Celery
from celery.app.trace import build_tracer
from celery.signals import before_task_publish, task_postrun
from psycopg.conninfo import make_conninfo

from celery_pecker import signals
from celery_pecker.kernel.clock import SYSTEM, from_us, new_id
from celery_pecker.kernel.settings import Settings
from celery_pecker.runs import Run, guard, headers
from celery_pecker.runs import guard as inheritance
from celery_pecker.runs.instants import Instants
from celery_pecker.schedules.engine.model import task_id


@dataclass
class Bench:
    """One entry `sweep` in a database, and messages of its slots."""

    dsn: str
    settings: Settings
    app: Celery
    refused: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    guarded: guard.Guard | None = None

    def task(self, **options: Any) -> Any:
        """Return Celery's decorator; the task is of this app alone."""
        return self.app.task(shared=False, **options)

    def claim(self, *, ago: float = 0.0, epoch: int | None = None) -> dict[str, Any]:
        """Return the header of a slot that was claimed just now, due so long ago."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            row = connection.execute("select clock_timestamp()").fetchone()
            assert row is not None
            due: datetime = row[0] - timedelta(seconds=ago)
            epoch = epoch or int(row[0].timestamp() * 1e6)
            connection.execute(
                "insert into pecker_tasks (name, executed_at, epoch)"
                " values ('sweep', %(due)s, %(epoch)s) on conflict (name) do update"
                " set executed_at = %(due)s, epoch = %(epoch)s",
                {"due": due, "epoch": epoch},
            )
        return self.header(due, epoch)

    @staticmethod
    def header(
        due: datetime, epoch: int, timeout: float | None = 5.0
    ) -> dict[str, Any]:
        """Return the header of a slot."""
        deadline = None if timeout is None else due + timedelta(seconds=timeout)
        return {
            "name": "sweep",
            "due_at": due.isoformat(),
            "era": 0,
            "epoch": epoch,
            "deadline": deadline and deadline.isoformat(),
        }

    def deliver(
        self, task: Any, header: dict[str, Any] | None = None, **request: Any
    ) -> Any:
        """Run the task as a worker would; return (state, result)."""
        if header is not None and "id" not in request:
            due = datetime.fromisoformat(header["due_at"])
            us = (due - from_us(0)) // timedelta(microseconds=1)
            request["id"] = task_id("public", header["name"], us, header["era"])
        request.setdefault("id", str(new_id()))
        if header is not None:
            request["pecker"] = header
        message = {
            "task": task.name,
            "delivery_info": {},
            "retries": 0,
            "hostname": "here",
            **request,
        }
        states: list[str] = []

        def ended_as(state: str, **_: object) -> None:
            states.append(state)

        task_postrun.connect(ended_as, weak=False)
        try:
            tracer = build_tracer(task.name, task, app=self.app, hostname="here")
            result = tracer(request["id"], [], {}, message)
        finally:
            task_postrun.disconnect(ended_as)
        value = getattr(result.retval, "exception", result.retval)
        if self.guarded is not None:
            # What the worker's request does when the pool has answered.
            ended = states[0] == "SUCCESS"
            seen = SimpleNamespace(
                request_dict=message, id=request["id"], name=task.name
            )
            self.guarded.watch.ended(seen, None if ended else value)
        return states[0], value

    def run(self, **claim: Any) -> Run:
        """Return the run of a slot that was claimed just now."""
        run = headers.read(self.claim(**claim), schema="public")
        assert run is not None
        return run

    @property
    def fence(self) -> tuple[Any, ...] | None:
        """The row: era, attempt, epoch."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            return connection.execute(
                "select era, attempt, epoch from pecker_fences where name = 'sweep'"
            ).fetchone()

    @property
    def reports(self) -> list[int]:
        """What the history was told of runs."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            rows = connection.execute("select unnest(report) from pecker_history")
            return [row[0] for row in rows]

    @property
    def waits(self) -> bool:
        """Whether some statement waits for a lock."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            rows = connection.execute(
                "select from pg_stat_activity where wait_event_type = 'Lock'"
                " and datname = current_database()"
            )
            return rows.fetchone() is not None

    @property
    def place(self) -> tuple[str, int]:
        """Host and port of the database."""
        with psycopg.connect(self.dsn) as connection:
            return connection.info.host, connection.info.port

    def by_way_of(self, port: int) -> str:
        """Return the address of the database through a proxy."""
        return make_conninfo(self.dsn, host="127.0.0.1", port=port)

    def guard(self, pool: str = "solo", **settings: Any) -> guard.Guard:
        """The tasks of the app are guarded."""
        known = {"dsn": self.dsn, "app": "runs", **settings}
        made = guard.install(self.app, pool_kind=pool, settings=Settings(**known))
        self.guarded = made
        return made


@pytest.fixture
def bench(dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Give an app without a broker, and the tables."""
    # Databases of other tests have clocks of their own.
    monkeypatch.setattr(inheritance, "INSTANTS", Instants(SYSTEM))
    app = Celery(
        "runs", set_as_current=False, broker="memory://", backend="cache+memory://"
    )
    made = Bench(dsn, Settings(dsn=dsn, app="runs"), app)

    def refused(event: signals.Refused) -> None:
        made.refused.append(event.reason)

    def ended(event: signals.RunEnded) -> None:
        made.ended.append(event.state)

    def sent(sender: str, **_: object) -> None:
        made.sent.append(sender)

    before_task_publish.connect(sent)
    signals.refused.connect(refused)
    signals.run_ended.connect(ended)
    yield made
    if made.guarded is not None:
        made.guarded.close()
    before_task_publish.disconnect(sent)
    signals.refused.disconnect(refused)
    signals.run_ended.disconnect(ended)
