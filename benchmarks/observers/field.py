"""A schema of a trial's own, observers in it, and hosts that run them."""

from __future__ import annotations

import secrets
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import psycopg
from celery import Celery
from psycopg import sql

from benchmarks.filled import drop
from benchmarks.ground import Ground
from benchmarks.peers.given import ENVIRONMENT
from benchmarks.trial import ROOT
from celery_pecker.kernel.migrations import migrate
from celery_pecker.observers import Observers
from celery_pecker.testing import eventually
from celery_pecker.testing.processes import ProcessContainer

LEASE = 5.0
TIMEOUT = 120.0
CAPACITY = 20_000
EVEN = 0.05
"""Part of its share by which a host may be above it: then it gives nothing away."""


class Line(NamedTuple):
    """What an observer wrote down."""

    what: str
    name: str
    pid: int
    at: float


class Field:
    """The tables and the hosts."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.name = f"bench_{secrets.token_hex(4)}"
        self.hosts: dict[str, ProcessContainer] = {}

    @contextmanager
    def open(self) -> Iterator[None]:
        """Make the tables; remove them and the hosts at the end."""
        migrate(self.ground.dsn, schema=self.name)
        app = Celery("bench-observers", broker="memory://", set_as_current=False)
        app.conf.update(pecker_dsn=self.ground.dsn, pecker_schema=self.name)
        self.observers = Observers(app)
        self.connection = psycopg.connect(self.ground.dsn, autocommit=True)
        with tempfile.NamedTemporaryFile() as file:
            self._lines = Path(file.name)
            try:
                yield
            finally:
                processes = self.processes()
                for host in self.hosts.values():
                    host.kill()
                    host.remove()
                for process in processes:
                    with suppress(psutil.NoSuchProcess):
                        process.kill()
                self.connection.close()
                self.observers.close()
                drop(self.ground.dsn, self.name)

    def start_host(self, name: str) -> ProcessContainer:
        """Start ``pecker observe`` with one host; do not wait for it."""
        values = {"DSN": self.ground.dsn, "SCHEMA": self.name, "LINES": self._lines}
        self.hosts[name] = ProcessContainer(
            [
                *(
                    sys.executable,
                    "-m",
                    "celery",
                    "-A",
                    "benchmarks.observers.watching",
                ),
                *("pecker", "observe", "--hosts", "1", "--name", name),
                *("--capacity", str(CAPACITY), "--loglevel", "WARNING"),
            ],
            name=f"{name} of {self.name}",
            cwd=ROOT,
            env={ENVIRONMENT + key: str(value) for key, value in values.items()}
            | {ENVIRONMENT + "LEASE": str(LEASE)},
        )
        self.hosts[name].start()
        return self.hosts[name]

    def fill(self, hosts: int, observers: int) -> None:
        """Start so many hosts and observers, and wait until they run."""
        for number in range(hosts):
            self.start_host(f"host{number}")
        eventually(
            lambda: len(self.observers.nodes()) == hosts, TIMEOUT, "hosts are up"
        )
        with psycopg.connect(self.ground.dsn) as connection:
            for number in range(observers):
                self.observers.start("idle", f"o{number}", connection=connection)
        eventually(lambda: self.running() == observers, TIMEOUT, "observers run")
        eventually(lambda: self.even(hosts, observers), TIMEOUT, "hosts are even")

    def ask(self, statement: str, **params: object) -> Any:
        """Return the first value of a statement; ``{observers}`` is the table."""
        table = sql.Identifier(self.name, "pecker_observers")
        text = sql.SQL(statement).format(observers=table)
        row = self.connection.execute(text, params).fetchone()
        return row[0] if row else None

    def running(self) -> int:
        """Return how many began and did not end, as they wrote it."""
        lines = self.lines()
        return sum(1 if one.what == "began" else -1 for one in lines)

    def moves(self) -> int:
        """Return how often observers have moved to another host."""
        return int(self.ask("select sum(moves) from {observers}"))

    def held(self) -> dict[str, int]:
        """Return how many each living host has, by its id."""
        return {one.node: one.observers for one in self.observers.nodes()}

    def even(self, hosts: int, observers: int) -> bool:
        """Return whether so many hosts have them all, and none has far too many."""
        held = [*self.held().values()]
        most = observers / hosts * (1 + EVEN) + 1
        return len(held) == hosts and sum(held) == observers and max(held) <= most

    def lines(self) -> list[Line]:
        """Return all that observers wrote down, in order."""
        words = (line.split() for line in self._lines.read_text().splitlines())
        made = [Line(what, name, int(pid), float(at)) for what, name, pid, at in words]
        return sorted(made, key=lambda one: one.at)

    def processes(self) -> list[psutil.Process]:
        """Return the hosts: children of their supervisors."""
        found = []
        for host in self.hosts.values():
            with suppress(psutil.NoSuchProcess):
                found += psutil.Process(host.pid).children()
        return found

    def wait_for(self, names: set[str], since: float) -> dict[str, float]:
        """Wait until all of them began after an instant; return when each did."""

        def begun() -> dict[str, float]:
            first: dict[str, float] = {}
            for one in self.lines():
                if one.what == "began" and one.at > since and one.name in names:
                    first.setdefault(one.name, one.at)
            return first

        eventually(lambda: begun().keys() == names, TIMEOUT, "all of them began anew")
        return begun()
