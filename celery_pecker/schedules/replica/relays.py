"""The relays of one process: a thread for each outbox of its app.

And for the table in the app's own schema, made here or not: the web process alone may
make the `Outbox`, or another service record through `pecker intake`.
"""

import logging
import sys
from dataclasses import KW_ONLY, InitVar, asdict, dataclass
from typing import Any

from celery_pecker.brokers.publisher.stored_messages import StoredPublisher
from celery_pecker.heartbeat import Heartbeat
from celery_pecker.kernel.backoff import Backoff
from celery_pecker.kernel.clock import SYSTEM, new_id
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.kernel.figure_tables import FiguresWriter
from celery_pecker.kernel.figures import AGE, ALL_OUTBOX, DEPTH, SENT, Figures
from celery_pecker.kernel.forks import abandon_in_forks
from celery_pecker.kernel.loop import Loop
from celery_pecker.kernel.schema_check import check_schema
from celery_pecker.kernel.settings import Settings
from celery_pecker.outbox.overview import MOST_COUNTED, OutboxOverview
from celery_pecker.outbox.relay import vacuum
from celery_pecker.outbox.relay.batches import Batches
from celery_pecker.outbox.relay.step import Relay
from celery_pecker.outbox.runs.pushes import Pushes
from celery_pecker.outbox.runs.service import DEFAULT

logger = logging.getLogger("celery_pecker.outbox")

LOOK_INTERVAL = 5.0
"""Seconds between two looks at a table that cannot be served as it is, or that this app
makes no `Outbox` for and in which nothing was seen yet."""


class Relays:
    """Delivers every outbox of an app; none holds another one up, or a schedule."""

    def __init__(self, app: Any, *, kind: str) -> None:
        self._all = [
            _Running(app, one.name, one.settings, f"{kind}-outbox-{number}")
            for number, one in enumerate(_outboxes(app))
        ]
        own = Settings.read(app.conf, main=app.main)
        tables = [(one.dsn, one.schema) for one in self.settings.values()]
        if (own.dsn, own.schema) not in tables and DEFAULT not in self.settings:
            number = len(self._all)
            kind = f"{kind}-outbox-{number}"
            self._all.append(_Running(app, DEFAULT, own, kind, dormant=True))
        abandon_in_forks(self)

    @property
    def settings(self) -> dict[str, Settings]:
        """The settings of each outbox, by its name."""
        return {one.name: one.settings for one in self._all}

    def start(self) -> None:
        """Start the threads."""
        for one in self._all:
            one.loop.start()

    def stop(self) -> None:
        """Claim nothing more, and leave. Safe in a signal handler, idempotent."""
        for one in self._all:
            one.stop()

    def join(self, timeout: float) -> bool:
        """Wait for the batches in flight, all together; return whether all left."""
        until = SYSTEM.monotonic() + timeout
        left = True
        for loop in [loop for one in self._all for loop in one.loops]:
            left &= loop.join(max(until - SYSTEM.monotonic(), 0.0))
        return left

    @property
    def alive(self) -> bool:
        """Whether all threads turn, servers or no servers."""
        return all(one.dormant or one.heart.beats for one in self._all)

    def abandon(self) -> None:
        """Drop the connections in a fork: they are the parent's."""
        for one in self._all:
            one.database.abandon()
            one.vacuum_database.abandon()
            one.figures_database.abandon()
            one.publisher.abandon()

    def info(self) -> list[dict[str, Any]]:
        """Return what people may want to know, as JSON can say it."""
        return [
            {"kind": "outbox", "name": one.name, **asdict(one.relay.tally)}
            for one in self._all
            if not one.dormant
        ]


@dataclass(eq=False)
class _Running:
    """One outbox, and the thread that delivers it."""

    app: InitVar[Any]
    name: str
    settings: Settings
    kind: InitVar[str]
    _: KW_ONLY
    dormant: bool = False

    def __post_init__(self, app: Any, kind: str) -> None:
        self.database = Database.of(self.settings, role="relay")
        self.publisher = StoredPublisher(app, timeout=self.settings.broker_timeout)
        self.heart = Heartbeat(self.settings, kind=kind, clock=SYSTEM)
        self.relay = Relay(
            Batches(self.database, new_id(), hold=self.settings.outbox_lease),
            self.publisher,
            hold=self.settings.outbox_lease,
            name=self.name,
        )
        self.pushes = Pushes(
            self.database,
            self.publisher,
            self.settings,
            name=self.name,
        )
        self.loop = Loop(
            self._step,
            name=f"pecker-{kind}",
            leave=self._leave,
            backoff=Backoff(most=5.0),
        )
        self.vacuum_database = Database.of(
            self.settings, timeout=vacuum.TIMEOUT, role="vacuum"
        )
        self.vacuuming = Loop(
            vacuum.Vacuum(
                self.vacuum_database,
                lambda: self.relay.tally.sent,
                name=self.name,
            ).step,
            name=f"pecker-{kind}-vacuum",
            backoff=Backoff(most=60.0),
        )
        self.figures_database = Database.of(self.settings, role="figures")
        self._figures = FiguresWriter(
            Figures(),
            self.figures_database,
            new_id(),
            clock=SYSTEM,
            # An app may have an outbox and no scheduler; two that fold do no harm.
            folds=lambda: True,
            look=self._count,
        )
        self.figuring = Loop(
            self._write_figures,
            name=f"pecker-{kind}-figures",
            leave=self._leave_figures,
        )
        self._stopped = self._vacuums = False
        self._complaint = self._logged = ""

    def stop(self) -> None:
        """Let the step in flight end, then leave."""
        self._stopped = True
        self.relay.stop()
        self.vacuuming.stop()
        self.figuring.stop()
        self.loop.stop()

    def _step(self) -> float:
        if not self.dormant:
            self.heart.beat()
        try:
            if not self.database.connected:
                self.relay.reconnected()
                check_schema(self.database, app=self.settings.app)
            if self.dormant:
                [(used,)] = self.database.run("read_outbox_used")
                if not used:
                    self.database.close()
                    return LOOK_INTERVAL
                self.heart.beat()
                self.dormant = False
            if not self._vacuums:
                self._vacuums = True
                self.vacuuming.start()
                self.figuring.start()
            pause = self.relay.step()
            if self.relay.tally.broker is None and not self._stopped:
                pause = min(pause, self.pushes.step())
        except Misconfigured as error:
            # A migration or a grant may follow: no reason to end the process.
            # A dormant one logs it at its second look: if the scheduler needs what is
            # missing, it has reported it by then, and the process may have ended.
            text = str(error)
            if text != self._logged and (not self.dormant or text == self._complaint):
                logger.error("pecker: outbox %s is not delivered: %s", self.name, text)  # noqa: TRY400  # one line says it
                self._logged = text
            self._complaint = text
            self.database.close()
            return LOOK_INTERVAL
        self._complaint = self._logged = ""
        return pause

    @property
    def loops(self) -> list[Loop]:
        """What is waited for at the end."""
        return [self.loop, self.figuring] if self._vacuums else [self.loop]

    def _count(self) -> None:
        """Count what was sent since the last look, and what waits now."""
        summary = OutboxOverview(self.figures_database).summary()
        queues = self.figures_database.run(
            "count_outbox_queues", now=None, most=MOST_COUNTED
        )
        at_us, add = queues[0][0], self._figures.figures.add
        waiting = [(ALL_OUTBOX, summary.depth, summary.oldest)]
        waiting += [
            (f"task {one.task}", one.waiting, one.oldest) for one in summary.tasks
        ]
        waiting += [
            (f"queue {name}", depth, oldest) for _, name, depth, oldest in queues
        ]
        for subject, depth, oldest in waiting:
            if depth:
                add(subject, at_us, DEPTH, depth)
                add(subject, at_us, AGE, int((oldest or 0.0) * 1_000))
        lately = self.relay.lately
        while lately:
            (task, queue), count = lately.popleft()
            add(f"task {task}", at_us, SENT, count)
            add(f"queue {queue}", at_us, SENT, count)

    def _write_figures(self) -> float:
        rest = self._figures.step()
        self.figures_database.close()  # it is needed once a minute
        return rest

    def _leave_figures(self) -> None:
        self._figures.leave()
        self.figures_database.close()

    def _leave(self) -> None:
        self.publisher.close()
        self.database.close()
        if self._stopped:
            self.heart.stop()


def _outboxes(app: Any) -> list[Any]:
    """Return the outboxes of an app; one that has none has not imported them."""
    if "celery_pecker.outbox.app" not in sys.modules:
        return []
    from celery_pecker.outbox.app import outboxes  # noqa: PLC0415  # as above

    return [*outboxes(app)]
