"""A schema and a queue of a trial's own, with an app that has an outbox."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import psycopg
from celery import Celery
from kombu import Connection
from psycopg import sql

from benchmarks.peers.environment import ENVIRONMENT
from benchmarks.schedules.filled import drop
from benchmarks.schedules.trial import ROOT
from benchmarks.servers import Servers
from celery_pecker.kernel.migrations import migrate
from celery_pecker.outbox import Outbox
from celery_pecker.testing import eventually
from example_project.processes import ProcessContainer

READY_TIMEOUT = 30.0
POLL = 0.02
TASK = "bench.note"
COPY = """
insert into {table} (
    mode, priority, task, task_id, exchange, routing_key, content_type,
    content_encoding, declare, headers, properties, body, due_at, created_at
)
select o.mode, o.priority, o.task, new.id, o.exchange, o.routing_key, o.content_type,
    o.content_encoding, o.declare, replace(o.headers, o.task_id, new.id),
    replace(o.properties, o.task_id, new.id), o.body,
    now() + %(later)s::float8 * interval '1 second', now()
from (select * from {table} order by id limit 1) as o,
    (select gen_random_uuid()::text as id from generate_series(1, %(rows)s)) as new
"""


def note(number: int) -> None:
    """Nobody runs it."""


def build(broker: str, dsn: str, schema: str, queue: str) -> tuple[Celery, Outbox, Any]:
    """Return an app, its outbox and a task that nobody runs."""
    app = Celery("bench", broker=broker, set_as_current=False)
    app.conf.update(
        pecker_dsn=dsn,
        pecker_schema=schema,
        pecker_app="bench",
        task_default_queue=queue,
        task_ignore_result=True,
    )
    outbox = Outbox(app)
    task: Any = app.task(name=TASK, shared=False)(note)
    return app, outbox, task


class Field:
    """The table, the app, and processes that deliver."""

    def __init__(self, servers: Servers, broker: str) -> None:
        self.servers = servers
        self.broker = str(servers.broker(broker))
        self.name = f"bench_{secrets.token_hex(4)}"
        self.dsn = servers.dsn
        self.relay: ProcessContainer | None = None

    @contextmanager
    def open(self) -> Iterator[None]:
        """Make the tables; remove tables, queue and processes at the end."""
        migrate(self.dsn, schema=self.name)
        self.app, self.outbox, self.task = build(
            self.broker, self.dsn, self.name, self.name
        )
        self.table = sql.Identifier(self.name, "pecker_outbox")
        self.connection = psycopg.connect(self.dsn, autocommit=True)
        try:
            yield
        finally:
            self.stop_relay()
            self.connection.close()
            self.outbox.close()
            self.app.close()
            with Connection(self.broker) as connection:
                channel: Any = connection.default_channel
                channel.queue_delete(self.name)
            drop(self.dsn, self.name)

    def ask(self, statement: str, **params: object) -> Any:
        """Return the first value of a statement; ``{table}`` is the outbox."""
        text = sql.SQL(statement).format(table=self.table)
        cursor = self.connection.execute(text, params)
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None

    def fill(self, rows: int, *, later: float | None = None) -> None:
        """Record so many messages in one transaction, due now or later."""
        with psycopg.connect(self.dsn) as connection:
            self.outbox.send(self.task.s(1), connection=connection)
            text = sql.SQL(COPY).format(table=self.table)
            connection.execute(text, {"rows": rows - 1, "later": later})

    def start_relay(self) -> None:
        """Start a process that delivers, and wait until it looks at the table."""
        given = {
            "BROKER": self.broker,
            "DSN": self.dsn,
            "SCHEMA": self.name,
            "QUEUE": self.name,
        }
        self.relay = ProcessContainer(
            [sys.executable, "-m", "benchmarks.outbox.relaying"],
            name=f"relay of {self.name}",
            cwd=ROOT,
            env={ENVIRONMENT + key: str(value) for key, value in given.items()},
        )
        self.relay.start()
        seen = "select count(*) from {table}_relays"
        eventually(lambda: self._relays(seen), READY_TIMEOUT, "the relay is there")

    def stop_relay(self) -> None:
        """Kill the process that delivers, if there is one."""
        if self.relay is not None:
            self.relay.kill()
            self.relay.remove()
            self.relay = None

    def _relays(self, text: str) -> Any:
        relays = sql.Identifier(self.name, "pecker_outbox_relays")
        asked = text.replace("{table}_relays", "{relays}")
        return self.connection.execute(sql.SQL(asked).format(relays=relays)).fetchone()[
            0
        ]  # type: ignore[index]

    def empty(self, timeout: float) -> float:
        """Wait until no row is left; return the instant, monotonic."""
        end = time.monotonic() + timeout
        while self.ask("select exists (select from {table})"):
            if time.monotonic() > end:
                message = f"rows are left after {timeout:.0f} s"
                raise TimeoutError(message)
            time.sleep(POLL)
        return time.monotonic()

    def cpu(self) -> dict[str, float]:
        """Return seconds of processor time: of the relay, and of each server."""
        pids = dict(self.servers.server_pids)
        if self.relay is not None:
            pids["relay"] = self.relay.pid
        return {name: _family(pid) for name, pid in pids.items()}


def _family(pid: int) -> float:
    parent = psutil.Process(pid)
    total = 0.0
    for one in (parent, *parent.children(recursive=True)):
        times = one.cpu_times()
        total += times.user + times.system
    return total
