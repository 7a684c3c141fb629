"""A schema of a trial's own, observers in it, and hosts that run them."""

from __future__ import annotations

import secrets
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import psycopg
from celery import Celery
from psycopg import sql

from benchmarks.observers.watching import WRITES
from benchmarks.peers.environment import ENVIRONMENT
from benchmarks.schedules.filled import drop
from benchmarks.schedules.trial import ROOT
from benchmarks.servers import Servers
from celery_pecker.kernel.migrations import migrate
from celery_pecker.observers import Observers
from celery_pecker.testing import eventually
from example_project.processes import ProcessContainer

LEASE = 5.0
TIMEOUT = 120.0
CAPACITY = 20_000
"""Of a host, at least; some must have room for what others leave."""
STARTED = 500
"""Observers that are started one by one; the rest is one statement."""
REST = """
insert into {observers} (name, kind, args, weight, not_before, created_at, modified_at)
select %(kind)s || number, %(kind)s, jsonb_build_object(), 1, now(), now(), now()
from generate_series(%(first)s::integer, %(last)s) as number
"""
EVEN = 0.05
"""Part of its share by which a host may be above it: then it gives nothing away."""


class Line(NamedTuple):
    """What an observer wrote down."""

    what: str
    name: str
    pid: int
    at: float
    epoch: int


class Field:
    """The tables and the hosts."""

    def __init__(self, servers: Servers, *, dsn: str = "") -> None:
        """`dsn`: of a server that is not the trial's; its hosts use that one."""
        self.servers = replace(servers, dsn=dsn, server_pids={}) if dsn else servers
        self.name = f"bench_{secrets.token_hex(4)}"
        self.hosts: dict[str, ProcessContainer] = {}
        self.capacity = CAPACITY
        self._read: list[Line] = []
        self._offset = 0

    @contextmanager
    def open(self) -> Iterator[None]:
        """Make the tables; remove them and the hosts at the end."""
        migrate(self.servers.dsn, schema=self.name)
        app = Celery("bench-observers", broker="memory://", set_as_current=False)
        app.conf.update(pecker_dsn=self.servers.dsn, pecker_schema=self.name)
        self.observers = Observers(app)
        self.connect()
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
                drop(self.servers.dsn, self.name)

    def start_host(self, name: str) -> ProcessContainer:
        """Start ``pecker observe`` with one host; do not wait for it."""
        values = {"DSN": self.servers.dsn, "SCHEMA": self.name, "LINES": self._lines}
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
                *("--capacity", str(self.capacity), "--loglevel", "WARNING"),
            ],
            name=f"{name} of {self.name}",
            cwd=ROOT,
            env={ENVIRONMENT + key: str(value) for key, value in values.items()}
            | {ENVIRONMENT + "LEASE": str(LEASE)},
        )
        self.hosts[name].start()
        return self.hosts[name]

    def connect(self) -> None:
        """Have a new connection to the tables."""
        self.connection = psycopg.connect(self.servers.dsn, autocommit=True)

    def fill(self, hosts: int, observers: int | Mapping[str, int]) -> None:
        """Start so many hosts and observers, of each kind, and wait until they run."""
        kinds = {"idle": observers} if isinstance(observers, int) else observers
        many = sum(kinds.values())
        self.capacity = max(CAPACITY, 2 * many // hosts)
        timeout = TIMEOUT + many / 500
        for number in range(hosts):
            self.start_host(f"host{number}")
        eventually(
            lambda: len(self.observers.nodes()) == hosts, TIMEOUT, "hosts are up"
        )
        with psycopg.connect(self.servers.dsn) as connection:
            # Hundreds of thousands of statements: not each into the log of the server.
            connection.execute("set log_min_duration_statement = -1")
            for kind, count in kinds.items():
                started = min(count, STARTED)
                for number in range(started):
                    name = f"{kind}{number}"
                    self.observers.start(kind, name, connection=connection)
                values = {"kind": kind, "first": started, "last": count - 1}
                connection.execute(self._text(REST), values)
        eventually(
            lambda: self.running() == many, timeout, "observers run", interval=0.1
        )
        eventually(
            lambda: self.even(hosts, many), timeout, "hosts are even", interval=0.2
        )

    def ask(self, statement: str, **params: object) -> Any:
        """Return the first value of a statement; ``{observers}`` … are the tables."""
        row = self.connection.execute(self._text(statement), params).fetchone()
        return row[0] if row else None

    def execute(self, statement: str) -> None:
        """Run a statement whose tables are in this schema."""
        place = sql.SQL("set search_path to {}").format(sql.Identifier(self.name))
        self.connection.execute(place)
        self.connection.execute(statement.encode())

    def running(self) -> int:
        """Return how many began and did not end, as they wrote it."""
        lines = self.lines()
        began = sum(1 for one in lines if one.what == "began")
        return began - sum(1 for one in lines if one.what == "ended")

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
        with self._lines.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.decode().splitlines():
            what, name, pid, at, epoch = line.split()
            self._read.append(Line(what, name, int(pid), float(at), int(epoch)))
        self._read.sort(key=lambda one: one.at)
        return [*self._read]

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

    def _text(self, statement: str) -> sql.Composed:
        tables = {
            "observers": "pecker_observers",
            "nodes": "pecker_observer_nodes",
            "history": "pecker_observer_history",
            "writes": WRITES,
        }
        named = {key: sql.Identifier(self.name, table) for key, table in tables.items()}
        return sql.SQL(statement).format(**named)
