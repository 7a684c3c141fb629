"""Replicas, the servers they stand on, the ways to them, and what is recorded."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from celery_pecker.kernel.clock import pause
from celery_pecker.testing import eventually
from tests.chaos.audit import Audit
from tests.chaos.recorder import Recorder, recorder
from tests.chaos.verdict import Arrival, Event, Evidence, Verdict, judge
from tests.nodes import LEAN, BeatNode, beat, start, worker
from tests.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_celery import CeleryTestWorker

APP = "tests.chaos.app"
ROOT = Path(__file__).parents[2]
AMQP_PORT = 5672


class Cluster:
    """One database, one broker, and the schedulers that share them.

    Replicas reach both through proxies (`database_way`, `broker_way`), the recorder
    and the audit do not: they see what is, not what the replicas see.
    """

    def __init__(
        self,
        *,
        dsn: str,
        broker_url: str,
        queue: str,
        entries: int = 10,
        period: float = 1.0,
        schema: str = "public",
    ) -> None:
        self.dsn = dsn
        self.broker_url = broker_url
        self.queue = queue
        self.period = period
        self.names = [f"e{number:04}" for number in range(entries)]
        self.beats: list[BeatNode] = []
        self.workers: list[CeleryTestWorker] = []
        self._stack = contextlib.ExitStack()
        given = conninfo_to_dict(dsn)
        self.database_way = self.way(str(given["host"]), int(str(given["port"])))
        broker = urlsplit(broker_url)
        self._broker = (str(broker.hostname), broker.port or AMQP_PORT)
        self.broker_way = self.way(*self._broker)
        self.recorder: Recorder = self._stack.enter_context(recorder(broker_url, queue))
        self.schema = schema
        self.audit = Audit(dsn, schema=schema)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Every process has ended and nothing is left on the servers."""
        for node in (*self.workers, *self.beats):
            node.teardown()
        self._stack.close()

    def way(self, host: str, port: int) -> Proxy:
        """Return a proxy that lasts as long as the cluster."""
        return self._stack.enter_context(Proxy(host, port))

    def own_broker_way(self) -> Proxy:
        """Return another way to the broker, for one replica alone."""
        return self.way(*self._broker)

    def conf(
        self, *, broker_way: Proxy | None = None, **settings: object
    ) -> dict[str, Any]:
        """Return the app's configuration, by way of the proxies."""
        broker = urlsplit(self.broker_url)
        login, at, _ = broker.netloc.rpartition("@")
        way = broker_way or self.broker_way
        through = broker._replace(netloc=f"{login}{at}127.0.0.1:{way.port}")
        dsn = make_conninfo(self.dsn, host="127.0.0.1", port=self.database_way.port)
        schedule = {
            name: {"task": "chaos.tick", "schedule": self.period} for name in self.names
        }
        return {
            "broker_url": through.geturl(),
            "task_default_queue": self.queue,
            "task_ignore_result": True,
            "result_expires": None,  # else beat adds its own clean-up entry
            "broker_connection_retry_on_startup": True,
            "worker_hijack_root_logger": True,
            "pecker_dsn": dsn,
            "pecker_schema": self.schema,
            "beat_schedule": schedule,
            **settings,
        }

    def replica(
        self,
        conf: Mapping[str, object] | None = None,
        *,
        app: str = "chaos",
        launcher: Sequence[str] = LEAN,
        env: Mapping[str, str] | None = None,
    ) -> BeatNode:
        """Return one more scheduler of the cluster, not yet started."""
        node = beat(
            APP,
            name=f"beat{len(self.beats)}",
            cwd=ROOT,
            env=self._env(conf or self.conf(), app, env),
            launcher=launcher,
        )
        self.beats.append(node)
        return node

    def replicas(self, count: int) -> list[BeatNode]:
        """Return so many schedulers, ready, and awake since."""
        nodes = [self.replica() for _ in range(count)]
        self.begin(nodes)
        return nodes

    def begin(self, nodes: Sequence[BeatNode]) -> None:
        """The schedulers run and each has woken; the recorder sees messages."""
        start(nodes, BeatNode.await_woken)

    def worker(
        self, queue: str, conf: Mapping[str, object] | None = None
    ) -> CeleryTestWorker:
        """Return one more worker, which reads `queue`, not yet started."""
        node = worker(
            APP,
            name=f"worker{len(self.workers)}",
            queue=queue,
            cwd=ROOT,
            env=self._env(conf or self.conf(), "chaos", None),
            options=["-c", "2"],
        )
        self.workers.append(node)
        return node

    def _env(
        self, conf: Mapping[str, object], app: str, env: Mapping[str, str] | None
    ) -> dict[str, str]:
        return {
            "PECKER_CHAOS_CONF": json.dumps(conf),
            "PECKER_CHAOS_APP": app,
            **(env or {}),
        }

    # what happened

    @property
    def now(self) -> float:
        """The host's wall clock, as arrivals are stamped."""
        return self.recorder.now()

    def arrivals(self, since: float = 0.0) -> list[Arrival]:
        """Return the messages that arrived since then."""
        return [each for each in self.recorder.arrivals() if each.at >= since]

    def await_slot(self, due: float, timeout: float = 15.0) -> float:
        """Every entry has fired a slot that fell due at `due` or later; return now."""

        def fired() -> bool:
            latest = {a.name: a.due_us / 1e6 for a in self.recorder.arrivals()}
            return all(latest.get(name, 0.0) >= due for name in self.names)

        eventually(fired, timeout, f"all entries fire after the slot of {due}")
        return self.now

    def next_due(self, ahead: int = 1) -> float:
        """Return the instant of the next slot but (ahead - 1)."""
        due = self.recorder.latest_due()
        if due is None:
            msg = "nothing has arrived yet: the grid is not known"
            raise LookupError(msg)
        slots = (self.now - due) // self.period + ahead
        return float(due + slots * self.period)

    def until(self, instant: float) -> None:
        """It is that instant by the host's wall clock."""
        while (left := instant - self.now) > 0:
            pause(left)

    def winner(self) -> BeatNode:
        """Return the replica that claimed last."""
        pid = self.audit.claims()[-1].pid
        return next(node for node in self.beats if node.process.pid == pid)

    def verdict(
        self, since: float, until: float, events: Sequence[Event] = ()
    ) -> Verdict:
        """Judge the slots due in between; waits until a later one has fired."""
        self.await_slot(until)
        names = frozenset(self.names)
        return judge(
            Evidence(
                period=self.period,
                since=since,
                until=until,
                arrivals=[a for a in self.recorder.arrivals() if a.name in names],
                claims=[claim for claim in self.audit.claims() if claim.name in names],
                events=events,
                names=self.names,
            )
        )
