"""What goes wrong at night: how each begins, and what its cause is called.

An incident is a context manager: it breaks something of a scene, and mends it at its
end, as far as the button of its cause has not.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass

import psycopg

from celery_pecker.kernel.clock import pause
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import PeckerError
from celery_pecker.kernel.settings import Settings
from celery_pecker.outbox import Outbox, operations
from celery_pecker.outbox.operations import Which
from celery_pecker.schedules import Schedules
from tests.browser.incidents.scene import Scene

Function = Callable[[Scene], Iterator[None]]
Begin = Callable[[Scene], AbstractContextManager[None]]


@dataclass(frozen=True)
class Incident:
    """What goes wrong."""

    begin: Begin
    title: str
    """What its cause is called on the page."""
    button: str = ""
    """What ends it; empty: nothing of ours does."""


INCIDENTS: dict[str, Incident] = {}


def incident(title: str, button: str = "") -> Callable[[Function], None]:
    """Add an incident, by the name of its function."""

    def add(function: Function) -> None:
        begin = contextmanager(function)
        INCIDENTS[function.__name__] = Incident(begin, title, button)

    return add


@contextmanager
def transaction(scene: Scene, statement: str) -> Iterator[None]:
    """Somebody begins a transaction at a prompt, and goes home."""
    connection = psycopg.connect(scene.dsn, application_name="psql of anna")
    try:
        connection.execute(statement.encode())
        yield
    finally:
        with suppress(psycopg.Error):
            connection.close()


@contextmanager
def stored(scene: Scene, name: str, task: str) -> Iterator[None]:
    """Store a schedule of every second."""
    with closing(Schedules(scene.app)) as schedules:
        schedules.set(name, task=task, schedule={"every": 1.0}, by="anna")
        yield
        schedules.remove(name, by="anna")


@incident("Rows are locked", "End the session")
def locked_row(scene: Scene) -> Iterator[None]:
    """A forgotten transaction holds a row: claims pass over it."""
    with transaction(scene, "select from pecker_tasks where name = 'often' for update"):
        yield


@incident("Rows are locked", "End the session")
def locked_table(scene: Scene) -> Iterator[None]:
    """A forgotten transaction holds all rows."""
    with transaction(scene, "lock table pecker_tasks in exclusive mode"):
        yield


@incident("A transaction holds back the clean-up", "End the session")
def held_snapshot(scene: Scene) -> Iterator[None]:
    """A report was begun at a prompt, and has been open for a minute."""
    # A younger one is a report that ends: it is named from a minute on.
    with transaction(scene, "begin isolation level repeatable read; select 1"):
        pause(60.0)
        yield


@incident("The broker is away")
def broker_refuses(scene: Scene) -> Iterator[None]:
    """Nobody listens at the broker's port."""
    scene.redis.refuse()
    yield
    scene.redis.open()


@incident("The broker is away")
def broker_hangs(scene: Scene) -> Iterator[None]:
    """The broker accepts, and never answers."""
    scene.redis.hang()
    yield
    scene.redis.open()


@incident("Redis takes no messages")
def redis_full(scene: Scene) -> Iterator[None]:
    """Redis has no memory left, and refuses what adds to it."""
    scene.server.config_set("maxmemory", "1mb")
    yield
    scene.server.config_set("maxmemory", "0")


@incident("Redis may drop queues")
def redis_evicts(scene: Scene) -> Iterator[None]:
    """Somebody has set Redis up as a cache."""
    scene.server.config_set("maxmemory", "100mb")
    scene.server.config_set("maxmemory-policy", "allkeys-lru")
    yield
    scene.server.config_set("maxmemory-policy", "noeviction")
    scene.server.config_set("maxmemory", "0")


@incident("PostgreSQL cannot be used")
def postgres_refuses(scene: Scene) -> Iterator[None]:
    """Nobody listens at the port of PostgreSQL."""
    scene.postgres.refuse()
    yield
    scene.postgres.open()


@incident("PostgreSQL cannot be used")
def postgres_hangs(scene: Scene) -> Iterator[None]:
    """PostgreSQL accepts, and never answers."""
    scene.postgres.hang()
    yield
    scene.postgres.open()


@incident("No scheduler is alive")
def no_scheduler(scene: Scene) -> Iterator[None]:
    """The only scheduler is killed."""
    scene.processes["beat"].kill()
    yield
    scene.processes["beat"].start()


@incident("No scheduler is alive")
def frozen_scheduler(scene: Scene) -> Iterator[None]:
    """The only scheduler is frozen."""
    scene.processes["beat"].kill(signal.SIGSTOP)
    yield
    scene.processes["beat"].kill(signal.SIGCONT)


@incident("No worker answers")
def no_worker(scene: Scene) -> Iterator[None]:
    """The only worker is killed."""
    scene.processes["worker"].kill()
    yield
    scene.processes["worker"].start()


@incident("No worker takes a queue", "Have workers take it")
def no_worker_on_a_queue(scene: Scene) -> Iterator[None]:
    """No worker was started for a queue."""
    scene.app.control.cancel_consumer("mail", reply=True)
    yield
    scene.app.control.add_consumer("mail", reply=True)


@incident("No worker knows a task", "Pause")
def renamed_task(scene: Scene) -> Iterator[None]:
    """A schedule names a task that has another name by now."""
    with stored(scene, "weekly", "proj.send_weekly_report"):
        yield


@incident("Runs fail")
def failing_runs(scene: Scene) -> Iterator[None]:
    """Each run of an entry raises."""
    with stored(scene, "billing", "proj.fails"):
        yield


@incident("Sharded jobs failed")
def poison_item(scene: Scene) -> Iterator[None]:
    """A sharded job fails at one item."""
    scene.app.send_task("proj.poisoned", args=[[1, 2, 3]])
    yield
    scene.sql("update pecker_jobs set ended_at = ended_at - interval '2 hours'")


@incident("Parked observers", "Restart all parked")
def leaking_observer(scene: Scene) -> Iterator[None]:
    """An observer runs out of memory, and is parked."""
    (scene.site.folder / "leaks").touch()
    with scene.observers() as observers:
        observers.start("leak", "socket-1")
        yield
        observers.stop("socket-1")


@incident("Parked messages", "Retry all parked")
def parked_messages(scene: Scene) -> Iterator[None]:
    """A recorded task was refused by the broker, and is parked."""
    settings = Settings.read(scene.app.conf, main="proj")
    outbox = Outbox(scene.app)
    outbox.send(scene.app.signature("proj.tick"), countdown=3600)
    with closing(Database.of(settings, role="test")) as database:
        operations.park(database, Which(all_rows=True), "the exchange is unknown")
        yield
        operations.drop(database, Which(all_rows=True))
    outbox.close()


@incident("The clock of the database stepped back")
def clock_step(scene: Scene) -> Iterator[None]:
    """The clock of the database was set back by an hour."""
    scene.sql("update pecker_tasks set epoch = epoch + 3600000000")
    yield
    scene.sql("update pecker_tasks set epoch = epoch - 3600000000")


@incident("A stored schedule cannot be read")
def wrong_zone(scene: Scene) -> Iterator[None]:
    """A schedule names a time zone that there is not."""
    with closing(Schedules(scene.app)) as schedules:
        schedules.set(
            "reports",
            task="proj.report",
            schedule={"cron": "0 7 * * *", "zone": "Europe/Paris"},
            by="anna",
        )
        scene.sql(
            "update pecker_schedules set schedule ="
            " replace(schedule::text, 'Paris', 'Pari')::jsonb where name = 'reports'"
        )
        yield
        schedules.remove("reports", by="anna")


@incident("Paused entries", "Resume")
def forgotten_pause(scene: Scene) -> Iterator[None]:
    """Somebody paused an entry, and forgot it."""
    with closing(Schedules(scene.app)) as schedules:
        schedules.pause("mail", by="anna")
        yield
        with suppress(PeckerError):
            schedules.resume("mail", by="anna")


@incident("The schema belongs to another app")
def two_apps(scene: Scene) -> Iterator[None]:
    """The schema is another app's."""
    scene.sql("update pecker_owner set app = 'shop'")
    yield
    scene.sql("update pecker_owner set app = 'proj'")


@incident("A table needs care")
def no_autovacuum(scene: Scene) -> Iterator[None]:
    """Somebody switched autovacuum off for the busiest table."""
    scene.sql("alter table pecker_tasks set (autovacuum_enabled = false)")
    yield
    scene.sql("alter table pecker_tasks reset (autovacuum_enabled)")
