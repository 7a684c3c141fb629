"""An app that really runs: its servers, a scheduler, a worker, Flower."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from celery import Celery
from redis import Redis

from celery_pecker.kernel.migrations import migrate
from celery_pecker.observers import Observers
from celery_pecker.testing import EmbeddedPostgres, EmbeddedRedis
from example_project.processes import ProcessContainer
from tests.integration.flower.site import Site
from tests.proxy import Proxy

MORE = """
import pathlib

from celery_pecker.observers import Observers, Retry
from celery_pecker.outbox import Outbox
from celery_sharding import FailFast, Sharding

sharding = Sharding(app)
outbox = Outbox(app)
observers = Observers(app)
app.conf.beat_schedule["mail"] = {
    "task": "proj.mail", "schedule": 1.0, "options": {"queue": "mail"},
}


@observers.observer(retry=Retry(times=0, delays=(0.1,)))
def leak(lease):
    file = pathlib.Path("leaks")
    if file.exists():
        file.unlink()
        raise MemoryError("the buffer of its socket grows")
    while not lease.wait(0.1):
        pass


@app.task(name="proj.tick")
def tick():
    pass


@app.task(name="proj.report")
def report():
    pass


@app.task(name="proj.mail")
def mail():
    pass


@sharding.task(name="proj.poisoned", size=(1, 1), on_error=FailFast())
def poisoned(shard):
    for item in shard:
        if item == 2:
            raise ValueError("no such customer: 2")
        shard.ok(item)


@app.task(name="proj.fails")
def fails():
    raise ValueError("no such customer: 4711")
"""
QUEUES = "celery,mail"


@dataclass
class Scene:
    """What can be broken, and the app as whoever breaks it has it."""

    dsn: str
    postgres: Proxy
    redis: Proxy
    server: Redis
    app: Celery
    site: Site
    processes: dict[str, ProcessContainer] = field(default_factory=dict)

    def start(self, name: str, *command: str) -> None:
        """Start a process of the app, once more if it was stopped."""
        argv = [sys.executable, "-m", "celery", "-A", "proj", *command]
        process = ProcessContainer(argv, name=name, cwd=self.site.folder)
        process.start()
        self.processes[name] = process

    def restart(self, name: str) -> None:
        """Start a process again."""
        self.processes[name].restart()

    @contextmanager
    def observers(self) -> Iterator[Observers]:
        """Give what starts and stops observers."""
        observers = Observers(self.app)
        yield observers
        observers.close()

    def sql(self, text: str, *params: object) -> None:
        """Run a statement, past the proxy."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(text.encode(), params)


@contextmanager
def scene() -> Iterator[Scene]:
    """Give the app, with all of it running."""
    with ExitStack() as stack:
        dsn = stack.enter_context(EmbeddedPostgres(fast=True)).dsn
        redis = stack.enter_context(EmbeddedRedis(fast=True))
        migrate(dsn, schema="public")
        address = psycopg.conninfo.conninfo_to_dict(dsn)
        postgres = stack.enter_context(
            Proxy(str(address["host"]), int(str(address["port"])))
        )
        way = stack.enter_context(Proxy.before(redis.url))
        through = psycopg.conninfo.make_conninfo(
            dsn, host="127.0.0.1", port=postgres.port
        )
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        conf = {"pecker_dsn": through, "pecker_database_timeout": 1.0}
        site = Site(folder=folder, broker_url=way.url, conf=conf, more=MORE)
        stack.callback(site.close)
        app = Celery("proj", broker=redis.url, set_as_current=False)
        app.conf.pecker_dsn = dsn
        stack.callback(app.close)
        server = stack.enter_context(Redis.from_url(redis.url))
        made = Scene(dsn, postgres, way, server, app, site)
        site.start(env={"FLOWER_UNAUTHENTICATED_API": "true"})
        made.start("beat", "beat", "-S", "pecker", "--pidfile=")
        made.start("observe", "pecker", "observe")
        made.start("worker", "worker", "-P", "threads", "-c", "4", "-Q", QUEUES)
        try:
            yield made
        finally:
            for process in made.processes.values():
                process.remove()
