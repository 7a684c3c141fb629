"""Hosts with their supervisors, and what is done to them."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
from celery import Celery

from celery_pecker.kernel.clock import monotonic, pause
from celery_pecker.observers import Observers
from celery_pecker.testing import eventually
from celery_pecker.testing.processes import ProcessContainer
from tests.chaos.observers.events import Event
from tests.chaos.observers.oracle import Begun, Wanted, Write

HOSTS = 4
APART = 1.0
"""Seconds between two events."""
TIMEOUT = 120.0
ROOT = Path(__file__).parents[3]
TABLE = "create table writes (name text, epoch bigint, at timestamptz)"


class Stand:
    """Four hosts, observers, and who of them must run."""

    def __init__(self, dsn: str) -> None:
        app = Celery("observers-chaos", broker="memory://", set_as_current=False)
        app.conf.update(pecker_dsn=dsn)
        self.observers = Observers(app)
        self.connection = psycopg.connect(dsn, autocommit=True)
        self.connection.execute(TABLE)
        self.wanted: dict[str, Wanted] = {}
        self.running: list[str] = []
        self._undo: list[tuple[float, ProcessContainer | psutil.Process | str]] = []
        self.hosts = [self._host(dsn, number) for number in range(HOSTS)]

    def begin(self, many: int) -> None:
        """Start hosts and observers, and wait until all have written."""
        for host in self.hosts:
            host.start()
        eventually(
            lambda: len(self.observers.nodes()) == HOSTS, TIMEOUT, "hosts are up"
        )
        self._start(many)
        self.all_write()
        now = self.now()
        self.wanted = {name: Wanted(now, float("inf")) for name in self.running}

    def do(self, event: Event) -> None:
        """Let one event happen, and undo what is due."""
        host = self.hosts[event.host]
        child = self._child(host)
        match event.kind:
            case "kill host" if child is not None:
                self._signal(child, signal.SIGKILL)
            case "kill both" if child is not None:
                host.kill("SIGSTOP")  # or it would say that its host is dead
                self._signal(child, signal.SIGKILL)
                host.kill()
                host.start()
            case "freeze host" if child is not None:
                self._signal(child, signal.SIGSTOP)
                self._later(event, child)
            case "freeze both" if child is not None:
                host.kill("SIGSTOP")
                self._signal(child, signal.SIGSTOP)
                self._later(event, child)
                self._undo.append((monotonic() + event.seconds, host))
            case "block" if child is not None:
                self._signal(child, signal.SIGUSR1)
            case "stop":
                self._stop(event)
            case "restart":
                self._restart(event)
            case "drain":
                name = f"host{event.host}-0"
                self.observers.drain(name)
                self._later(event, name)
        ends = monotonic() + APART
        while monotonic() < ends:
            self._thaw(monotonic())
            pause(0.05)

    def settle(self) -> None:
        """Undo what is left; wait until stops are obeyed, and all others write."""
        self._thaw(float("inf"))
        stopped = [name for name in self.wanted if name not in self.running]
        query = "select count(*) from pecker_observers where name = any (%s)"
        query += " and status <> 'deleted'"
        eventually(lambda: self._ask(query, stopped) == 0, TIMEOUT, "stops are obeyed")
        self.all_write()
        now = self.now()
        for name in self.running:
            self.wanted[name] = Wanted(self.wanted[name].since, now)

    def all_write(self) -> None:
        """Wait until each observer that is to run has written from now on."""
        query = (
            "select count(distinct name) from writes"
            " where name = any (%s) and at > to_timestamp(%s)"
        )
        now, many = self.now(), len(self.running)
        eventually(
            lambda: self._ask(query, self.running, now) == many, TIMEOUT, "all write"
        )

    def now(self) -> float:
        """Return the instant, by the clock of the database."""
        return float(self._ask("select extract(epoch from clock_timestamp())"))

    def writes(self) -> list[Write]:
        """Return all guarded writes."""
        rows = self.connection.execute(
            "select name, epoch, extract(epoch from at)::float8 from writes"
        ).fetchall()
        return [Write(*row) for row in rows]

    def begun(self) -> list[Begun]:
        """Return all lives that hosts took."""
        rows = self.connection.execute(
            "select name, extract(epoch from at)::float8 from pecker_observer_history"
            " where event in ('started', 'moved')"
        ).fetchall()
        return [Begun(*row) for row in rows]

    def close(self) -> None:
        """End all processes."""
        self._thaw(float("inf"))
        children = [child for host in self.hosts if (child := self._child(host))]
        for host in self.hosts:
            host.remove()
        for child in children:
            self._signal(child, signal.SIGKILL)
        self.connection.close()
        self.observers.close()

    def _host(self, dsn: str, number: int) -> ProcessContainer:
        return ProcessContainer(
            [
                *(sys.executable, "-m", "celery", "-A", "tests.chaos.observers.app"),
                *("pecker", "observe", "--hosts", "1", "--capacity", "1000"),
                *("--name", f"host{number}"),
            ],
            name=f"host{number}",
            cwd=ROOT,
            env={"PECKER_TEST_DSN_OF_APP": dsn},
        )

    def _start(self, many: int) -> list[str]:
        first = len(self.wanted)
        names = [f"o{number}" for number in range(first, first + many)]
        with self.connection.transaction():
            for name in names:
                self.observers.start("writing", name, connection=self.connection)
        self.running += names
        return names

    def _stop(self, event: Event) -> None:
        """Stop some, and start as many others in their place."""
        for part in event.names:
            name = self.running.pop(int(part * len(self.running)))
            since = self.wanted[name].since
            self.wanted[name] = Wanted(since, self.now())
            self.observers.stop(name)
        now = self.now()
        for name in self._start(len(event.names)):
            self.wanted[name] = Wanted(now, float("inf"))

    def _restart(self, event: Event) -> None:
        for part in event.names:
            self.observers.restart(self.running[int(part * len(self.running))])

    def _later(self, event: Event, what: psutil.Process | str) -> None:
        self._undo.append((monotonic() + event.seconds, what))

    def _thaw(self, now: float) -> None:
        due = [one for one in self._undo if one[0] <= now]
        self._undo = [one for one in self._undo if one[0] > now]
        for _, what in due:
            if isinstance(what, ProcessContainer):
                what.kill("SIGCONT")
            elif isinstance(what, psutil.Process):
                self._signal(what, signal.SIGCONT)
            else:
                self.observers.undrain(what)

    def _child(self, host: ProcessContainer) -> psutil.Process | None:
        with suppress(psutil.NoSuchProcess):
            return next(iter(psutil.Process(host.pid).children()), None)
        return None

    def _signal(self, process: psutil.Process, number: int) -> None:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)

    def _ask(self, query: str, *params: Any) -> Any:
        row = self.connection.execute(query.encode(), params).fetchone()
        return row[0] if row else None
