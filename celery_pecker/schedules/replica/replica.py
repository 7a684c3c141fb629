"""What beat and workers hold in their hands."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

from celery import Celery

from celery_pecker.alarms.kinds import Held, Shut
from celery_pecker.heartbeat import Heartbeat
from celery_pecker.kernel.clock import SYSTEM, new_id
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.forks import abandon_in_forks
from celery_pecker.kernel.lease import SECOND
from celery_pecker.kernel.loop import Loop
from celery_pecker.kernel.schema_check import check_schema
from celery_pecker.kernel.settings import Settings
from celery_pecker.schedules.declarations import reading
from celery_pecker.schedules.declarations.beat_schedule import (
    BeatSchedule,
    other_scheduler,
)
from celery_pecker.schedules.engine.agenda import Agenda
from celery_pecker.schedules.engine.model import Entry, RunMode
from celery_pecker.schedules.engine.pending_writes import PendingWrites
from celery_pecker.schedules.engine.repository import Repository
from celery_pecker.schedules.engine.service import Service
from celery_pecker.schedules.engine.timekeeper import Timekeeper
from celery_pecker.schedules.engine.upkeep import UpkeepPace
from celery_pecker.schedules.history.writer import HistoryWriter, SharedHistory

if TYPE_CHECKING:
    from celery_pecker.brokers.publisher import Publisher
    from celery_pecker.schedules.local.runner import LocalRunner

logger = logging.getLogger("celery_pecker.beat")


@dataclass(slots=True)
class Claimant:
    """One holder of claims: its entries, its tables, and the time there.

    Where its slots go is not decided yet: threads that run entries in this process
    report by that time. Nothing is connected yet.

    Raises:
        Misconfigured: An entry cannot be read.
    """

    app: Celery
    beat_schedule: BeatSchedule
    settings: Settings
    _: KW_ONLY
    kind: str
    """'beat' or 'worker': they publish; 'local': it runs entries in its process."""
    entries: list[Entry] = field(init=False)
    """What code declares for its kind."""
    pace: UpkeepPace = field(init=False)
    database: Database = field(init=False)
    agenda: Agenda = field(init=False)
    repository: Repository = field(init=False)
    timekeeper: Timekeeper = field(init=False)

    def __post_init__(self) -> None:
        named = other_scheduler(self.app)
        if named is not None and self.kind != "local":
            logger.warning(
                "pecker: beat_scheduler is %s: what that stores is not run here; import"
                " it (celery -A proj pecker import --schedules), or run it by celery"
                " -A proj beat -S pecker_bridge",
                named,
            )
        mode = RunMode.LOCAL if self.kind == "local" else RunMode.DISPATCH
        declared = reading.entries(
            self.beat_schedule.schedule, self.app, conf=self.app.conf
        )
        self.entries = [entry for entry in declared if entry.policy.run is mode]
        self.pace = UpkeepPace(timeout=self.settings.database_timeout)
        self.database = Database.of(self.settings)
        self.agenda = Agenda(self.entries, slack_us=int(self.pace.slack * SECOND))
        keeps_reports = self.settings.history > 0
        self.repository = Repository(
            self.database, new_id(), kind=self.kind, keeps_reports=keeps_reports
        )
        self.timekeeper = Timekeeper(SYSTEM, self.repository, self.agenda)


LAST_BATCH = 0.4
"""Seconds that a stop waits for the batch in flight, so that a deploy loses no slot."""


@dataclass(slots=True, kw_only=True, weakref_slot=True, eq=False)
class Replica:
    """A scheduler of this process, with its thread."""

    claimant: Claimant
    service: Service
    pending: PendingWrites
    databases: list[Database]
    destination: Publisher | LocalRunner
    runs: LocalRunner | None
    """The destination, if slots run in this process; None: they are published."""
    heart: Heartbeat
    history: SharedHistory | None
    writer: HistoryWriter | None
    """None: another replica's is used, or none writes."""
    shut: Shut | None
    """What its gate lets nothing through to; None: it cannot say."""
    held: Held
    """What its gate held back lately."""
    ended: Callable[[str], None]
    """Called on the loop's thread, with a reason, if that ends unasked."""
    stopping: bool = False
    """Whether it was asked to stop: an end before that is a failure."""
    loop: Loop = field(init=False)

    def __post_init__(self) -> None:
        """Register for forks."""
        self.loop = Loop(
            self._step,
            name=f"pecker-{self.claimant.kind}",
            leave=self._leave,
            may_end=True,
        )
        abandon_in_forks(self)

    def start(self) -> None:
        """Start the loop."""
        if self.writer is not None:
            self.writer.start()
        self.loop.start()

    def stop(self) -> None:
        """Claim nothing more, and leave. Safe in a signal handler, idempotent."""
        self.stopping = True
        self.service.stop()
        self.loop.stop()

    def join(self, timeout: float = LAST_BATCH) -> bool:
        """Wait for the batch in flight; whether the loop has left."""
        return self.loop.join(timeout)

    def close_history(self, timeout: float = LAST_BATCH) -> None:
        """Have the last reports written, if that is possible at once."""
        if self.writer is not None:
            self.writer.stop()
            self.writer.join(timeout)

    @property
    def entries(self) -> list[Entry]:
        """What code declares for its kind."""
        return self.claimant.entries

    @property
    def failure(self) -> str | None:
        """Why it ended without being asked to; None while all is well."""
        if self.loop.failure is not None:
            return str(self.loop.failure)
        if self.loop.dead:
            return "the scheduler's thread has ended; see the log above"
        return None

    @property
    def idle(self) -> float | None:
        """Seconds since the last good step; None before the first."""
        turned = self.loop.turned
        return None if turned is None else SYSTEM.monotonic() - turned

    @property
    def alive(self) -> bool:
        """Whether the loop turns, servers or no servers."""
        return self.heart.beats

    def _step(self) -> float:
        """Do all that is due now, on the loop's thread; return the seconds to sleep."""
        self.heart.beat()
        database = self.claimant.database
        if not database.connected:
            check_schema(database, app=self.claimant.settings.app)
        if self.runs is not None:
            self.pending.count_missed(self.runs.take_missed())
        return self.service.step()

    def _leave(self) -> None:
        """Close what the loop used, on its thread; log an unrequested end."""
        self.destination.close()
        self.claimant.database.close()
        if self.stopping:
            self.heart.stop()
        else:
            self.ended(str(self.loop.failure or "its thread has ended; see the log"))

    def abandon(self) -> None:
        """Let go of the connections of the process that this one was forked from."""
        for database in self.databases:
            database.abandon()
        self.destination.abandon()

    def info(self) -> dict[str, Any]:
        """Return what people may want to know, as JSON can say it."""
        idle = self.idle
        return {
            "kind": self.claimant.kind,
            "holder": str(self.claimant.repository.holder),
            "entries": self.service.entries,
            "unreadable": self.service.unreadable,
            "won": self.pending.won,
            "missed": self.pending.refused,
            "last_turn": None if idle is None else round(idle, 3),
        }
