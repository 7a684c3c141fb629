"""An app with observers in a database of the test's own, and hosts that run them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from celery import Celery

from celery_pecker.kernel.clock import new_id
from celery_pecker.kernel.database import Database
from celery_pecker.observers import Observers
from celery_pecker.observers.hosts.supervisor import Supervisor
from celery_pecker.observers.hosts.tables import Tables
from celery_pecker.observers.model import ObserverRow, Place
from celery_pecker.testing import eventually
from tests.integration.observers import watch_app
from tests.services import PostgresStand

NOTES = (
    "create table notes (id bigserial, name text, what text, epoch bigint, pid int,"
    " at float8)"
)
SECONDS = 60.0
"""For what takes one second on a machine that does nothing else."""


async def watch(lease: Any, symbol: str = "", depth: int = 1) -> None:
    """Do nothing: no host runs it in these tests."""


async def heavy(lease: Any) -> None:
    """Do nothing, with a weight of 5."""


@dataclass
class Desk:
    """Observers of an app, without a process that runs them."""

    dsn: str
    observers: Observers
    watch: Any
    databases: list[Database] = field(default_factory=list)

    def host(
        self,
        name: str = "one",
        capacity: int = 10,
        ttl: float = 60.0,
        *,
        follows: bool = True,
    ) -> Tables:
        """Return the tables as a host of this name sees them; it has joined."""
        database = Database.of(self.observers.settings, role="observers")
        self.databases.append(database)
        tables = Tables(database, self.observers.kinds, follows=follows)
        tables.join(str(new_id()), name=name, pid=1, capacity=capacity, ttl=ttl)
        return tables

    def sql(self, text: str, *params: Any) -> list[tuple[Any, ...]]:
        """Run a statement of the test's own; return its rows."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(text.encode(), params)
            return cursor.fetchall() if cursor.description else []

    def row(self, name: str) -> ObserverRow:
        """Return an observer that is there."""
        row = self.observers.status(name)
        assert row is not None
        return row

    def events(self, name: str) -> list[str]:
        """Return what happened to an observer, in order."""
        return [one.event for one in reversed(self.observers.history(name))]


@pytest.fixture
def desk(dsn: str) -> Iterator[Desk]:
    """Give observers of an app of this test's own."""
    app = Celery("desk", broker="memory://", set_as_current=False)
    app.conf.update(pecker_dsn=dsn)
    observers = Observers(app)
    made = Desk(dsn, observers, observers.observer(watch))
    observers.observer(heavy, weight=5)
    yield made
    observers.close()
    for database in made.databases:
        database.close()


@dataclass
class Crew:
    """Hosts as processes, and what their observers wrote down."""

    dsn: str
    observers: Observers
    supervisors: list[Supervisor] = field(default_factory=list)

    def start(self, name: str, hosts: int = 1, room: int = 100) -> Supervisor:
        """Start a supervisor with hosts, and wait until they are up."""
        made = Supervisor(self.observers, name=name, hosts=hosts, room=room)
        self.supervisors.append(made)
        made.start()
        wanted = {host.info()["name"] for host in made.hosts}
        eventually(
            lambda: wanted <= {one.name for one in self.observers.nodes()},
            timeout=SECONDS,
        )
        return made

    def notes(self, name: str) -> list[tuple[str, int, int, float]]:
        """Return what the lives of an observer wrote: what, epoch, process, instant."""
        with psycopg.connect(self.dsn) as connection:
            return connection.execute(
                "select what, epoch, pid, at from notes where name = %s order by id",
                [name],
            ).fetchall()

    def noted(self, name: str, what: str, times: int = 1) -> list[tuple[Any, ...]]:
        """Wait until it was written so often; return all that was."""

        def enough() -> bool:
            return sum(1 for one in self.notes(name) if one[0] == what) >= times

        eventually(enough, timeout=SECONDS)
        return self.notes(name)

    def row(self, name: str) -> ObserverRow:
        """Return an observer that is there."""
        row = self.observers.status(name)
        assert row is not None
        return row

    def at(self, name: str, place: Place) -> ObserverRow:
        """Wait until an observer is in a place; return its row."""

        def there() -> bool:
            row = self.observers.status(name)
            return row is not None and row.place is place

        eventually(there, timeout=SECONDS)
        row = self.observers.status(name)
        assert row is not None
        return row

    def close(self) -> None:
        """End all hosts at once."""
        for supervisor in self.supervisors:
            supervisor.kill()
        for supervisor in self.supervisors:
            assert supervisor.join(SECONDS)
        self.observers.close()


@pytest.fixture(scope="module")
def crews(postgres_server: PostgresStand) -> Iterator[Callable[..., Crew]]:
    """Give what makes the crew of a module, with settings; one at a time."""
    made: list[Crew] = []
    changed: set[str] = set()
    with postgres_server.fresh(migrated=True) as dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(NOTES)

        def make(**conf: Any) -> Crew:
            observers = watch_app.observers
            for name in ("settings", "_calls"):
                vars(observers).pop(name, None)
            watch_app.app.conf.update(pecker_dsn=dsn, **conf)
            changed.update(conf)
            made.append(Crew(dsn, observers))
            return made[-1]

        yield make
        for crew in made:
            crew.close()
    watch_app.app.conf.update(dict.fromkeys(changed))
