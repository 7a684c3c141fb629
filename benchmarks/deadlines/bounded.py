"""A worker whose runs have a deadline, and servers that stop answering it."""

from __future__ import annotations

import json
import secrets
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import psycopg
import redis
from celery import Celery
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from benchmarks.deadlines.endless import BEGIN, TASK
from benchmarks.deadlines.web import answering
from benchmarks.peers.environment import ENVIRONMENT
from benchmarks.schedules.trial import ROOT
from benchmarks.servers import Servers
from celery_pecker import deadline
from celery_pecker.kernel.migrations import migrate
from celery_pecker.runs import guard as inheritance
from celery_pecker.testing import eventually
from example_project.processes import ProcessContainer
from tests.proxy import Proxy

GIVEN = 0.35
"""Seconds that each run is given, from the moment at which it is sent."""
HUNG_AFTER = 0.15
SILENT_AFTER = 2.0
"""Seconds after the deadline at which a run that has not ended is given up."""
STARTS_WITHIN = 30.0


@dataclass(slots=True)
class Ends:
    """How runs ended."""

    late: list[float] = field(default_factory=list)
    """Seconds after the deadline."""
    silent: int = 0
    """Runs that began and did not end."""
    refused: int = 0
    """Runs that came too late to begin."""


class Bounded:
    """A worker of one pool; what its tasks ask leads through proxies."""

    def __init__(self, servers: Servers, pool: str, *, at_once: int) -> None:
        self.name = f"bench_{secrets.token_hex(4)}"
        self.at_once = at_once
        self._servers = servers
        self._pool = pool
        self._stack = ExitStack()
        self._proxies: list[Proxy] = []
        self._read = 0

    def __enter__(self) -> Self:
        """The worker has taken its first message."""
        with ExitStack() as stack:
            self._open(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left."""
        self._stack.close()

    def end(self, case: str, runs: int) -> Ends:
        """Return how such runs ended."""
        found = Ends()
        for _ in range(-(-runs // self.at_once)):
            for proxy in self._proxies:
                proxy.open()
            sent = time.monotonic()
            with deadline.within(GIVEN):
                for _ in range(self.at_once):
                    self._send(TASK, case)
            time.sleep(max(sent + HUNG_AFTER - time.monotonic(), 0.0))
            for proxy in self._proxies:
                proxy.hang()
            began, late = self._await(self.at_once, sent + GIVEN + SILENT_AFTER)
            found.late += late
            found.refused += self.at_once - began
            found.silent += began - len(late)
            if began > len(late):
                self._begin()  # what did not end would be in the way of the next
        return found

    def _open(self, stack: ExitStack) -> None:
        servers = self._servers
        migrate(servers.dsn, schema=self.name)
        stack.callback(self._drop)
        folder = stack.enter_context(tempfile.TemporaryDirectory("-pecker-bench"))
        self._told = Path(folder) / "told"
        settings = {
            "BROKER": servers.redis,
            "QUEUE": self.name,
            "TOLD": str(self._told),
            "DSN": servers.dsn,
            "SCHEMA": self.name,
            **self._ways(stack),
        }
        words = [
            "-A",
            "benchmarks.deadlines.endless",
            "worker",
            "-P",
            self._pool,
            "-l",
            "ERROR",
        ]
        words += ["-c", str(self.at_once), "-n", f"{self.name}@%h"]
        words += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        self._worker = ProcessContainer(
            [sys.executable, "-m", "celery", *words],
            name=f"worker, {self._pool}",
            cwd=ROOT,
            env={ENVIRONMENT + key: value for key, value in settings.items()},
        )
        stack.callback(self._worker.remove)
        self._app = stack.enter_context(Celery("sender", broker=servers.redis))
        inheritance.connect()
        self._begin()

    def _begin(self) -> None:
        """The worker is new, and has taken a message."""
        if self._worker.lives:
            self._worker.kill()
        for proxy in self._proxies:
            proxy.cut()
            proxy.open()
        self._told.write_bytes(b"")
        self._read = 0
        self._worker.start()
        self._send(BEGIN)
        eventually(lambda: self._new() or self._gone(), STARTS_WITHIN, "a first run")

    def _gone(self) -> bool:
        if self._worker.exit_code is not None:
            raise RuntimeError(self._worker.life_log()[-1000:])
        return False

    def _send(self, task: str, *args: str) -> None:
        self._app.send_task(task, args=args, queue=self.name, ignore_result=True)

    def _await(self, runs: int, until: float) -> tuple[int, list[float]]:
        """Return how many began, and how late those were that ended."""
        began = 0
        late: list[float] = []
        while len(late) < runs and time.monotonic() < until:
            time.sleep(0.01)
            for line in self._new():
                began += "began" in line
                late += [line["over_s"]] if "over_s" in line else []
        return began, late

    def _new(self) -> list[dict[str, Any]]:
        lines = self._told.read_text().splitlines()
        self._read, seen = len(lines), self._read
        return [json.loads(line) for line in lines[seen:]]

    def _ways(self, stack: ExitStack) -> dict[str, str]:
        """Return the addresses of the servers through proxies."""
        web = stack.enter_context(answering())
        postgres = conninfo_to_dict(self._servers.dsn)
        cache = urlsplit(self._servers.redis)
        places = {
            "postgresql": (str(postgres["host"]), int(postgres.get("port") or 5432)),
            "redis": (cache.hostname or "127.0.0.1", cache.port or 6379),
            "http": ("127.0.0.1", web),
        }
        ports: dict[str, int] = {}
        for name, place in places.items():
            proxy = stack.enter_context(Proxy(*place))
            self._proxies.append(proxy)
            ports[name] = proxy.port
        through = {**postgres, "host": "127.0.0.1", "port": str(ports["postgresql"])}
        login, _, _ = cache.netloc.rpartition("@")
        here = f"{login}{'@' * bool(login)}127.0.0.1:{ports['redis']}"
        return {
            "PROXY_POSTGRESQL": make_conninfo("", **through),
            "PROXY_REDIS": cache._replace(netloc=here).geturl(),
            "PROXY_HTTP": f"http://127.0.0.1:{ports['http']}/",
        }

    def _drop(self) -> None:
        with psycopg.connect(self._servers.dsn, autocommit=True) as connection:
            named = sql.Identifier(self.name)
            connection.execute(sql.SQL("drop schema {} cascade").format(named))
        with redis.Redis.from_url(self._servers.redis) as client:
            client.delete(self.name, f"_kombu.binding.{self.name}")
