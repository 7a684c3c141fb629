"""A worker's tasks in this process, whose messages are rows of an outbox."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from celery import Celery
from celery.app.trace import build_tracer
from celery.signals import task_postrun

from celery_pecker.kernel.database import Database
from celery_pecker.kernel.settings import Settings
from celery_pecker.outbox import Outbox, operations
from celery_pecker.outbox.runs.header import HEADER
from celery_pecker.outbox.runs.messages import Messages
from celery_pecker.runs import guard
from celery_pecker.schedules.local.outbox_runner import OutboxRunner
from celery_pecker.schedules.local.tracer import refuse_retries
from tests.integration.outbox.stored import Table

QUICK = {"pecker_outbox_backoff": 20.0}


class Hall:
    """An app whose worker is this process, and its outbox."""

    def __init__(self, dsn: str, **settings: Any) -> None:
        self.table = Table(settings.pop("table", dsn))
        others: dict[str, str] = settings.pop("others", {})
        self.app = Celery(
            "hall", set_as_current=False, broker="memory://", backend="cache+memory://"
        )
        self.app.conf.update({"pecker_dsn": dsn, **QUICK, **settings})
        self.outbox = Outbox(self.app)
        self.settings = Settings.read(self.app.conf, main=self.app.main)
        known = {"default": self.settings}
        for name, other in others.items():
            known[name] = Outbox(self.app, dsn=other, name=name).settings
        self.messages = Messages(
            known.get, names=lambda: known, refuse_retries=refuse_retries
        )
        self.messages.connect()
        self.service: Any = self.messages.service("default")
        self.called: list[Any] = []
        self.runners: list[OutboxRunner] = []
        self._guard: Any = None

    def task(self, function: Callable[..., Any], **options: Any) -> Any:
        """Return a task of a worker."""
        decorate: Any = self.app.task(name=function.__name__, shared=False, **options)
        task = decorate(function)
        self.guard()
        return self.app.tasks[task.name]

    def guard(self) -> None:
        """Put the worker's guard around the tasks that there are."""
        self._guard = guard.install(
            self.app, pool_kind="solo", settings=self.settings, stored=self.messages
        )

    def push(self, outbox: str = "default") -> list[tuple[dict[str, Any], bytes]]:
        """Return the messages of the rows that are due, as a broker has them.

        Whoever sends them knows the outbox as `default`.
        """
        service: Any = self.messages.service(outbox)
        with service._connections.connection(30.0) as database:
            rows = service.rows(database)
            claimed = rows.claim_pushes()
            epochs = {one.id: one.epoch for one in claimed}
            found = rows.read([*epochs.items()])
        return [
            (
                {
                    **json.loads(one.headers),
                    HEADER: {
                        "id": one.id,
                        "epoch": epochs[one.id],
                        "outbox": "default",
                        "task_id": one.task_id,
                    },
                },
                one.body,
            )
            for one in found
        ]

    def deliver(self, message: tuple[dict[str, Any], bytes]) -> tuple[str, Any]:
        """Run a message as a worker would; return the state and the result."""
        headers, body = message
        args, kwargs, embed = json.loads(body)
        task = self.app.tasks[headers["task"]]
        request = {
            "delivery_info": {},
            "retries": 0,
            "hostname": "here",
            **headers,
            **embed,
        }
        ended: list[str] = []

        def ended_as(state: str, **_: object) -> None:
            ended.append(state)

        task_postrun.connect(ended_as, weak=False)
        try:
            tracer = build_tracer(task.name, task, app=self.app, hostname="here")
            traced = tracer(headers["id"], args, kwargs, request)
        finally:
            task_postrun.disconnect(ended_as)
        return ended[-1], getattr(traced.retval, "exception", traced.retval)

    def run(self) -> list[str]:
        """Deliver what is due; return the states."""
        return [self.deliver(one)[0] for one in self.push()]

    def runner(self, **load: Any) -> OutboxRunner:
        """Return a started runner of rows of mode 2, as a worker has one."""
        self.load(**load)
        made = OutboxRunner(self.app, self.service, self.settings)
        self.runners.append(made)
        made.start()
        return made

    def load(self, **load: Any) -> None:
        """Set how hard runners work; by default without pauses."""
        pauses = dict.fromkeys(("pause_empty", "pause_error", "pause_done"), 0.01)
        database = Database(self.table.dsn, schema="public", timeout=30.0)
        operations.set_load(database, **{**pauses, **load})
        database.close()

    def close(self) -> None:
        """Leave nothing running."""
        for runner in self.runners:
            runner.stop()
        for runner in self.runners:
            runner.join(30.0)
        self.messages.close()
        if self._guard is not None:
            self._guard.close()
        self.outbox.close()
