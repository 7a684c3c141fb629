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
from example_project.processes import ProcessContainer
from tests.chaos.observers.events import Event
from tests.chaos.observers.oracle import Wanted
from tests.chaos.observers.record import Record

HOSTS = 4
APART = 1.0
"""Seconds between two events."""
TIMEOUT = 120.0
ROOT = Path(__file__).parents[3]
MOMENT = 3.0
"""Seconds for which a moment is waited for: its host may just be dead."""
CLAIMED = """
select max(n.name)
from pecker_observers as o join pecker_observer_nodes as n using (node)
where o.name = any (%s)
"""
WROTE = """
select max(n.name) from writes as w join pecker_observers as o using (name)
join pecker_observer_nodes as n using (node) where o.name = any (%s)
"""
LEASE_OF = """
select max(leased_until) from pecker_observer_nodes where name = %s and state <> 'dead'
"""
RENEWED = """
select max(leased_until) > %s from pecker_observer_nodes
where state <> 'dead' and name = %s
"""
NAMES_OF = """
select array_agg(o.name)
from pecker_observers as o join pecker_observer_nodes as n using (node)
where n.name = %s
"""
HELD = """
select count(*) from pecker_observers join pecker_observer_nodes as n using (node)
where n.name = %s
"""
FEWER = HELD.replace("count(*)", "count(*) < %s")
TABLES = """
create table writes (name text, epoch bigint, at timestamptz);
create table called (at timestamptz, names text[])
"""


class Stand:
    """Four hosts, observers, and who of them must run."""

    def __init__(self, dsn: str) -> None:
        app = Celery("observers-chaos", broker="memory://", set_as_current=False)
        app.conf.update(pecker_dsn=dsn)
        self.observers = Observers(app)
        self.connection = psycopg.connect(dsn, autocommit=True)
        self.connection.execute(TABLES)
        self.wanted: dict[str, Wanted] = {}
        self.running: list[str] = []
        self._undo: list[tuple[float, ProcessContainer | psutil.Process | str]] = []
        self.record = Record(self.connection)
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
        """Bring about the moment, strike, and undo what is due."""
        self.record.events.append((self.now(), event))
        host = self._moment(event)
        hit = self.hosts if event.failure == "kill all" else [self.hosts[host]]
        children = [self._child(one) for one in hit]
        for one, child in zip(hit, children, strict=True):
            if child is not None:
                self._strike(event, one, child)
        ends = monotonic() + APART
        while monotonic() < ends:
            self._thaw(monotonic())
            pause(0.05)

    def _moment(self, event: Event) -> int:
        """Wait until a host does what it is to be hit at; return its number."""
        name = f"host{event.host}-0"
        match event.moment:
            case "claim" | "start":
                names = self._stop(event)
                what = CLAIMED if event.moment == "claim" else WROTE
                node = self._reached(what, names)
                return event.host if node is None else int(str(node)[4:-2])
            case "beat":
                last = self._ask(LEASE_OF, name)
                self._reached(RENEWED, last, name)
            case "stop":
                self._stop(event, of=name)
            case "drain":
                before = self._ask(HELD, name)
                now = self.now()
                self.observers.drain(name)
                self.record.drains(name, now)
                self._later(event, name)
                self._reached(FEWER, before, name)
            case "restart":
                self._restart(event)
        return event.host

    def _strike(
        self, event: Event, host: ProcessContainer, child: psutil.Process
    ) -> None:
        match event.failure:
            case "kill host":
                self._signal(child, signal.SIGKILL)
            case "kill both" | "kill all":
                host.kill("SIGSTOP")  # or it would say that its host is dead
                self._signal(child, signal.SIGKILL)
                host.kill()
                host.start()
            case "freeze host":
                self._signal(child, signal.SIGSTOP)
                self._later(event, child)
            case "freeze both":
                host.kill("SIGSTOP")
                self._signal(child, signal.SIGSTOP)
                self._later(event, child)
                self._undo.append((monotonic() + event.seconds, host))
            case "block":
                self._signal(child, signal.SIGUSR1)

    def _reached(self, query: str, *params: Any) -> Any:
        """Wait until the first value of a query is one; None: it was not in time."""
        ends = monotonic() + MOMENT
        while monotonic() < ends:
            value = self._ask(query, *params)
            if value:
                return value
            pause(0.005)
        return None

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
                *(
                    sys.executable,
                    "-m",
                    "tests.lean",
                    "-A",
                    "tests.chaos.observers.app",
                ),
                *("pecker", "observe", "--hosts", "1", "--capacity", "10000"),
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

    def _stop(self, event: Event, of: str = "") -> list[str]:
        """Stop some, of a host or of any; start as many others and return those."""
        theirs = set(self._ask(NAMES_OF, of) or ())
        for part in event.names:
            start = int(part * len(self.running))
            order = range(start - len(self.running), start)
            at = next((n for n in order if self.running[n] in theirs), start)
            name = self.running.pop(at)
            since = self.wanted[name].since
            self.wanted[name] = Wanted(since, self.now())
            self.observers.stop(name)
        now = self.now()
        names = self._start(len(event.names))
        for name in names:
            self.wanted[name] = Wanted(now, float("inf"))
        return names

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
                self.record.takes(what, self.now())
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
