"""The hosts that run the groomer's observers: one is killed, one is drained."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import ExitStack, suppress
from typing import Any

import psycopg
from celery import Celery

from celery_pecker.observers import Observers
from celery_pecker.observers.model import NodeRow
from celery_pecker.testing import eventually
from example_project.demo.interrupts import undisturbed
from example_project.demo.stage import NotReady, started
from example_project.groomer import queries, watchers, wire
from example_project.groomer.lives import Event, Life, Watched, watched_since
from example_project.pace import LOST_AFTER
from example_project.processes import ProcessContainer

HOSTS = 3
CAPACITY = 10
"""Observers of one host: any of them could run all."""
KILLED, DRAINED = "killed", "drained"
ENDS_WITHIN = 10.0
"""Seconds in which a host hands over and ends."""


class Hosts:
    """Three times ``pecker observe``, with one host each."""

    def __init__(
        self, connection: psycopg.Connection[tuple[object, ...]], dsn: str, schema: str
    ) -> None:
        self._connection = connection
        # Observers are started by name: the code of their kind is the hosts' alone.
        app = Celery("stage", set_as_current=False)
        app.conf.update(pecker_dsn=dsn, pecker_schema=schema)
        self._observers = Observers(app)
        self._processes: dict[str, ProcessContainer] = {}
        self._servers: set[int] = set()
        self._events: list[Event] = []

    def start(self, kept: ExitStack, env: dict[str, str]) -> None:
        """Start the processes; they end with the stack."""
        kept.callback(self._observers.close)
        for number in range(1, HOSTS + 1):
            name = f"host-{number}"
            words = (
                *("-m", "celery", "-A", "example_project.groomer.app"),
                *("pecker", "observe", "--name", name, "--hosts", "1"),
                *("--capacity", str(CAPACITY)),
            )
            self._processes[f"{name}-0"] = started(kept, name, words, env)
        kept.callback(self._end)

    def await_ready(self) -> None:
        """Wait until each host holds a lease."""

        def ready() -> bool:
            for process in self._processes.values():
                if process.exit_code is not None:
                    raise NotReady(process, f"ended with code {process.exit_code}")
            return {one.name for one in self._up()} == self._processes.keys()

        eventually(ready, LOST_AFTER, "hosts of observers hold their leases")

    def add_server(self, server: int, port: int) -> None:
        """Enter a media server, with its observer."""
        address = (wire.HOST, port)
        watchers.add_server(self._connection, self._observers, server, address)
        self._servers.add(server)

    def kill(self) -> str:
        """Kill the host with the most observers and its supervisor; return its name.

        As a machine that loses power: nobody is left to say that the host is dead.
        """
        host = self._busiest()
        process = self._processes[host.name]
        with undisturbed():
            self._events.append(Event(KILLED, host.pid, self.now()))
            process.kill("SIGSTOP")
            with suppress(ProcessLookupError):
                os.kill(host.pid, signal.SIGKILL)
            process.kill()
        return process.name

    def drain(self) -> str:
        """Have the host with the most observers give them away; return its name."""
        host = self._busiest()
        self._events.append(Event(DRAINED, host.pid, self.now()))
        self._observers.drain(host.node)
        return self._processes[host.name].name

    def watched(self) -> bool:
        """Return whether hosts that nothing was done to look at each server again."""
        return not self._unwatched(KILLED, DRAINED)

    def now(self) -> float:
        """Return the time of PostgreSQL in seconds since 1970."""
        [now] = self._connection.execute(queries.query("now")).fetchone() or (0.0,)
        return float(str(now))

    def account(self, origin: float) -> Watched:
        """Return what was seen, in seconds since that time of PostgreSQL."""
        return Watched(
            [
                one._replace(began=one.began - origin, ended=one.ended - origin)
                for one in self._lives()
            ],
            [one._replace(at=one.at - origin) for one in self._events],
            # A drained host that lost its lease to a busy machine may come back.
            self._unwatched(KILLED),
        )

    def _unwatched(self, *kinds: str) -> int:
        since = max((one.at for one in self._events), default=0.0)
        gone = [one.pid for one in self._events if one.what in kinds]
        return len(self._servers - watched_since(self._lives(), since, gone))

    def _lives(self) -> list[Life]:
        query = queries.query("watches")
        rows: list[Any] = self._connection.execute(query).fetchall()
        return [Life(*row) for row in rows]

    def _up(self) -> list[NodeRow]:
        return [one for one in self._observers.nodes() if one.state == "up"]

    def _busiest(self) -> NodeRow:
        """Return the host with the most observers, but none that was killed."""
        gone = {one.pid for one in self._events}
        left: list[NodeRow] = []

        def busy() -> bool:
            left[:] = [one for one in self._up() if one.pid not in gone]
            return any(one.observers for one in left)

        eventually(busy, LOST_AFTER, "a host has observers")
        return max(left, key=lambda one: one.observers)

    def _end(self) -> None:
        """Have the hosts hand over and end: each is a process beside its supervisor."""
        for process in self._processes.values():
            process.kill("SIGTERM")
        for process in self._processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(ENDS_WITHIN)
