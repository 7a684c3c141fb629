"""Customers come and change while schedulers run; one schedule is held, and rings."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib import import_module
from os import environ
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from celery_pecker.kernel.clock import SYSTEM, new_id, pause
from celery_pecker.kernel.migrations import migrate
from celery_pecker.testing import eventually
from example_project.demo.servers import Servers
from example_project.demo.stage import await_word, started
from example_project.pace import LOST_AFTER

APP = ("-m", "celery", "-A", "example_project.customers.app")
CALM = 2.0
"""Seconds in which a customer who is not there is not reminded either."""
Tell = Callable[[str], None]
Connection = psycopg.Connection[Any]


@dataclass(slots=True, kw_only=True)
class Seen:
    """What was seen of the act. Seconds."""

    added: float = 0.0
    """From the commit of a customer to the first reminder."""
    left: int = -1
    """Rows and reminders of a customer whose transaction was rolled back."""
    changed: float = 0.0
    """From the commit of a shorter period to the second reminder by it."""
    rang: float = 0.0
    """From the moment at which the schedule was held to the call."""
    recovered: float = 0.0
    """From the moment at which it was let go to the call."""
    rings: int = 0
    """How often the two schedulers called."""


def play(servers: Servers, tell: Tell) -> Seen:
    """Play the act and return what was seen; tables and keys are its own."""
    schema = f"customers_{new_id().hex[:8]}"
    with ExitStack() as kept:
        folder = kept.enter_context(TemporaryDirectory(prefix="customers-"))
        env = {
            "CUSTOMERS_DSN": servers.postgres.dsn,
            "CUSTOMERS_REDIS_URL": servers.redis.url,
            "CUSTOMERS_KEY_PREFIX": f"{servers.redis.key_prefix}{schema}:",
            "CUSTOMERS_SCHEMA": schema,
            "CUSTOMERS_HEARTBEATS": folder,
        }
        environ.update(env)  # before its import: this process edits as the others do
        service: Any = import_module("example_project.customers.app")
        migrate(servers.postgres.dsn, schema=schema)
        own = make_conninfo(servers.postgres.dsn, options=f"-c search_path={schema}")
        owner: Connection = kept.enter_context(psycopg.connect(own, autocommit=True))
        drop = sql.SQL("drop schema {} cascade").format(sql.Identifier(schema))
        kept.callback(owner.execute, drop)
        service.execute(owner, "customers_schema")
        connection: Connection = kept.enter_context(service.connect())
        tell("customers: two schedulers and a worker start; nobody has a schedule")
        beat = (*APP, "beat", "-S", "pecker", "--pidfile=", "-l", "INFO")
        worker = (*APP, "worker", "-n", "customers@%h", "-P", "threads", "-l", "INFO")
        beats = [started(kept, f"customers-{n}", beat, env) for n in (1, 2)]
        await_word(started(kept, "customers", worker, env), " ready.")
        for one in beats:
            await_word(one, "pecker: ready")
        return Act(service, connection, tell).play()


class ChangedMind(Exception):
    """The customer does not sign."""


class Act:
    """What people do, and what comes of it."""

    def __init__(self, service: Any, connection: Connection, tell: Tell) -> None:
        self._service = service
        self._connection = connection
        self._tell = tell
        self._seen = Seen()

    def play(self) -> Seen:
        """Return what was seen."""
        seen = self._seen
        self._save("acme", 1.0)
        seen.added = self._until("acme", 1)
        self._tell(f"acme is added with a schedule: reminded after {seen.added:.1f} s")
        self._roll_back("globex")
        self._save("acme", 0.5)
        now = self._reminded("acme")
        seen.changed = self._until("acme", now + 2)
        self._tell(f"acme's period is halved: two more after {seen.changed:.1f} s")
        self._hold("acme")
        return seen

    def _save(self, name: str, every: float) -> None:
        with self._connection.transaction():
            self._service.save(self._connection, name, every, by="ann")

    def _roll_back(self, name: str) -> None:
        with suppress(ChangedMind), self._connection.transaction():
            self._service.save(self._connection, name, 0.5, by="ann")
            raise ChangedMind
        pause(CALM)
        left = self._count("customers_left", name=name)
        self._seen.left = left + self._reminded(name)
        self._tell(f"{name} is rolled back: no customer, no schedule, no reminder")

    def _hold(self, name: str) -> None:
        """Forget a transaction that has the row of a schedule; then remember it."""
        service, since = self._service, SYSTEM.monotonic()
        with service.connect() as other, other.transaction():
            service.execute(other, "customers_forget_to_commit", name=name)
            self._tell(f"somebody forgets to commit: {name}'s schedule is held")
            eventually(
                lambda: self._paged("ringing", name), LOST_AFTER, "an alarm rings"
            )
            self._seen.rang = SYSTEM.monotonic() - since
            self._tell(f"ALARM: {name} is silent, after {self._seen.rang:.1f} s")
        since = SYSTEM.monotonic()
        eventually(lambda: self._paged("recovered", name), LOST_AFTER, "it recovers")
        self._seen.recovered = SYSTEM.monotonic() - since
        self._seen.rings = self._paged("ringing", name)
        self._tell(f"it has committed: recovered after {self._seen.recovered:.1f} s")

    def _until(self, name: str, count: int) -> float:
        """Wait for so many reminders; return how long that took."""
        since = SYSTEM.monotonic()
        eventually(
            lambda: self._reminded(name) >= count, LOST_AFTER, f"{name} is reminded"
        )
        return SYSTEM.monotonic() - since

    def _reminded(self, name: str) -> int:
        return self._count("customers_reminded", customer=name)

    def _paged(self, event: str, name: str) -> int:
        return self._count("customers_paged", event=event, customer=name)

    def _count(self, label: str, **params: object) -> int:
        row = self._service.execute(self._connection, label, **params).fetchone()
        return int(row[0])
