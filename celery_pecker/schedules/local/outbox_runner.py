"""Runs of rows of an outbox (mode ``local``), on threads of this worker.

A loop of its own takes as many rows as threads are free and rested; each thread reads
its message, runs the task through Celery's tracer, and has the end written. No broker
is involved, and a table that is away keeps none of another table's rows waiting.
"""

import logging
import threading
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import UTC
from typing import Any, NamedTuple

from celery import states
from celery.utils.time import maybe_iso8601
from celery.worker.state import revoked
from kombu.compression import decompress
from kombu.exceptions import KombuError
from kombu.serialization import loads, prepare_accept_content
from kombu.utils.json import loads as loads_json

from celery_pecker.brokers.stored_message import Message
from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.clock import now as wall_clock
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import DatabaseUnavailable
from celery_pecker.kernel.lease import SLACK
from celery_pecker.kernel.loop import Loop
from celery_pecker.kernel.settings import Settings
from celery_pecker.outbox.runs import options
from celery_pecker.outbox.runs.header import HEADER
from celery_pecker.outbox.runs.load import MAX_THREADS, Load, PollPace
from celery_pecker.outbox.runs.messages import EXPIRED, REVOKED
from celery_pecker.outbox.runs.options import Options
from celery_pecker.outbox.runs.service import RunService, Started
from celery_pecker.schedules.local import tracer
from celery_pecker.schedules.local.threads import Threads

logger = logging.getLogger("celery_pecker.schedules.local")

LOOK_INTERVAL = 2.0
"""Seconds between two looks at the load, and at holds of before a step of the clock."""
UNREADABLE = (KombuError, ValueError, TypeError, LookupError, AttributeError)
"""What is raised of a message that cannot be read."""


class RunOrder(NamedTuple):
    """A row that has started here."""

    task: Any
    started: Started

    @property
    def key(self) -> tuple[int, int]:
        """Row and epoch: rows that start together have one epoch."""
        return self.started.begun.id, self.started.begun.epoch


@dataclass(eq=False, repr=False)
class OutboxRunner:
    """Takes rows of one outbox and runs them."""

    app: Any
    service: RunService
    settings: Settings
    _: KW_ONLY
    hostname: str = "local@localhost"
    pool_kind: str = "threads"
    name: str = "default"

    def __post_init__(self) -> None:
        self._kind = "gevent" if self.pool_kind == "gevent" else "threads"
        self._database = Database.of(self.settings, role="outbox")
        self._rows = self.service.rows(self._database)
        self._load = Load()
        self._pace = PollPace(Load(threads=0), monotonic())
        self._look_at = float("-inf")
        self._turn = 0
        self._lock = threading.Lock()
        self._open: dict[tuple[int, int], RunOrder] = {}
        self._complained: set[tuple[int, int]] = set()
        self._counts: Counter[str] = Counter()
        name = f"pecker-outbox-{self.name}"
        self._threads: Threads[RunOrder] = Threads(MAX_THREADS, self._run, name=name)
        self._loop = Loop(self._step, name=name, leave=self._database.close)
        self._tasks()  # what cannot be is refused before the start

    def start(self) -> None:
        """Take rows from now on."""
        self._loop.start()

    def stop(self) -> None:
        """Take no more rows; runs go on. Safe in a signal handler."""
        self._loop.stop()
        self._threads.stop()

    def join(self, seconds: float) -> bool:
        """Wait for the loop and for runs; return whether all have ended."""
        end = monotonic() + seconds
        left = self._loop.join(seconds)
        remaining = max(end - monotonic(), 0.0)
        return self._threads.join(remaining, monotonic) and left

    @property
    def busy(self) -> int:
        """How many runs are going."""
        return len(self._open)

    def stats(self) -> dict[str, Any]:
        """Return counts since the start, and the load, for people."""
        load = self._load
        return {
            "running": self.busy,
            "threads": load.threads,
            "only": None if load.only is None else [*load.only],
            **{key: self._counts[key] for key in ("succeeded", "failed")},
        }

    # On the loop's thread

    def _step(self) -> float:
        now = monotonic()
        if now >= self._look_at:
            self._look()
            self._look_at = now + LOOK_INTERVAL
        with self._lock:
            free = self._pace.free(now)
        if free and not self._loop.stopping:
            self._take(free)
        with self._lock:
            wait = self._pace.wait(monotonic())
        left = self._look_at - monotonic()
        return max(left if wait is None else min(wait, left), 0.0)

    def _look(self) -> None:
        self._rows.mend(SLACK)
        load = Load.now(self._database)
        if load != self._load:
            logger.info("pecker: recorded tasks are run under another load: %s", load)
        self._load = load
        now = monotonic()
        with self._lock:
            self._pace.change(load, now)
            late = [one for one in self._open.values() if one.started.held < now]
        for order in late:
            begun = order.started.begun
            if order.key not in self._complained:
                self._complained.add(order.key)
                logger.warning(
                    "pecker: the local run of the recorded task %s (row %d, attempt %d)"
                    " goes on after its hold: a thread cannot be ended; another worker"
                    " may run it",
                    *(order.task.name, begun.id, begun.attempt),
                )

    def _take(self, free: int) -> None:
        known = self._tasks()
        turns = deque(known)
        turns.rotate(-self._turn)
        names = [name for name in turns if self._load.wants(name)]
        self._turn += 1
        sent = monotonic()
        taken = self._rows.take([(name, known[name]) for name in names], free)
        for row, task in taken.parked:
            logger.error(
                "pecker: the recorded task %s (row %d) is parked: its last attempt has"
                " not reported its end",
                *(task, row),
            )
        orders = [
            RunOrder(
                self.app.tasks[begun.task],
                self.service.started(begun, known[begun.task], sent, self._kind),
            )
            for begun in taken.begun
        ]
        with self._lock:
            count = len(orders) + len(taken.parked)
            self._pace.took(len(orders), free - (count - len(orders)), sent)
            self._open.update((one.key, one) for one in orders)
        for order in orders:
            self._threads.put(order)

    def _tasks(self) -> Mapping[str, Options]:
        """Return the tasks that this worker has: rows of others are left to others."""
        return {
            name: options.read(task, attempts=self.service.attempts)
            for name, task in self.app.tasks.items()
            if not name.startswith("celery.")
        }

    # On a thread of its own

    def _run(self, order: RunOrder) -> None:
        well = False
        try:
            well = self._ran(order)
        except DatabaseUnavailable as error:
            logger.warning(
                "pecker: the recorded task %s (row %d) is not started, and is due again"
                " after its hold: %s",
                *(order.task.name, order.started.begun.id, error),
            )
        finally:
            now = monotonic()
            with self._lock:
                self._pace.ended(now, well=well)
                self._open.pop(order.key, None)
                self._complained.discard(order.key)
                self._counts["succeeded" if well else "failed"] += 1
            self._loop.wake()

    def _ran(self, order: RunOrder) -> bool:
        task, started = order
        self.app.set_current()
        stored = self.service.read(started.begun)
        if stored is None:
            return True
        try:
            args, kwargs, request = self._opened(stored)
        except UNREADABLE as error:
            self.service.fail(started, f"cannot be read: {error!r}", park=True)
            logger.exception(
                "pecker: the recorded task %s (row %d) is parked: it cannot be read",
                *(task.name, started.begun.id),
            )
            return False
        if (why := self._unwanted(request)) is not None:
            if self.service.fail(started, why, park=True):
                logger.warning(
                    "pecker: the recorded task %s (row %d) is parked: %s",
                    *(task.name, started.begun.id, why),
                )
            return False
        request[HEADER] = (self.service, started)
        ended = tracer.run(self.app, task, request, args, kwargs)
        return ended.state in {states.SUCCESS, states.IGNORED}

    def _unwanted(self, request: Mapping[str, Any]) -> str | None:
        """Return why it is not run, as Celery's worker decides for a message."""
        if request["correlation_id"] in revoked:
            return REVOKED
        expires = maybe_iso8601(request.get("expires"))
        if expires is None:
            return None
        expires = expires if expires.tzinfo else expires.replace(tzinfo=UTC)
        return EXPIRED if wall_clock() > expires else None

    def _opened(
        self, stored: Message
    ) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
        """Return what a worker makes of the message."""
        headers = loads_json(stored.headers)
        body: Any = stored.body
        if headers.get("compression"):
            body = decompress(body, headers["compression"])
        accept = prepare_accept_content(self.app.conf.accept_content)
        args, kwargs, embed = loads(
            body, stored.content_type, stored.content_encoding, accept=accept
        )
        request = tracer.request_of(
            {**headers, **(embed or {})},
            stored.task_id,
            self.hostname,
            exchange=stored.exchange,
            routing_key=stored.routing_key,
            priority=stored.priority,
        )
        return list(args), dict(kwargs), request
