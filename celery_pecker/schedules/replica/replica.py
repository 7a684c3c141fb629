"""What beat and workers hold in their hands."""

import gc
import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from celery import Celery

from celery_pecker.alarms.kinds import Held, Shut
from celery_pecker.brokers.publisher import Publisher
from celery_pecker.heartbeat import Heartbeat
from celery_pecker.kernel.clock import SYSTEM, new_id
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.forks import abandon_in_forks
from celery_pecker.kernel.lease import SECOND
from celery_pecker.kernel.loop import Loop
from celery_pecker.kernel.schema_check import check_schema
from celery_pecker.kernel.settings import Settings
from celery_pecker.schedules import tracing
from celery_pecker.schedules.declarations import reading
from celery_pecker.schedules.declarations.beat_schedule import (
    BeatSchedule,
    other_scheduler,
)
from celery_pecker.schedules.engine.agenda import Agenda
from celery_pecker.schedules.engine.model import RunMode
from celery_pecker.schedules.engine.pending_writes import PendingWrites
from celery_pecker.schedules.engine.repository import Repository
from celery_pecker.schedules.engine.sending import Sending
from celery_pecker.schedules.engine.service import Service
from celery_pecker.schedules.engine.stored_sync import StoredSync
from celery_pecker.schedules.engine.timekeeper import Timekeeper
from celery_pecker.schedules.engine.upkeep import UpkeepPace
from celery_pecker.schedules.history.recorder import Recorder
from celery_pecker.schedules.history.writer import HistoryWriter, SharedHistory
from celery_pecker.schedules.replica.alarms import closed_databases_of
from celery_pecker.schedules.replica.definitions import Definitions
from celery_pecker.schedules.replica.dispatching import RecordingGate, gate_of

if TYPE_CHECKING:
    from celery_pecker.schedules.local.runner import LocalRunner

logger = logging.getLogger("celery_pecker.beat")


@dataclass(eq=False, repr=False)
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
        """What code declares for its kind."""
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


class Replica:
    """A scheduler of this process, with its thread."""

    def __init__(  # all but the first have a default
        self,
        claimant: Claimant,
        *,
        runs: "LocalRunner | None" = None,
        history: SharedHistory | None = None,
        ended: Callable[[str], None] = lambda _: None,
        note_other_definitions: Callable[[], None] = lambda: None,
        freeze_heap: bool = True,
    ) -> None:
        """Put a claimant's replica together, not yet started.

        ``runs``: where slots run in this process, for a claimant of the kind 'local';
        None: they are published.
        ``history`` is another replica's, in the same process.
        ``ended`` is called on the replica's thread, with a reason, if that ends by
        itself, ``note_other_definitions`` when it sees stored schedules that replicas
        of the other kind run.
        """
        app, settings, pace = claimant.app, claimant.settings, claimant.pace
        agenda, repository = claimant.agenda, claimant.repository
        timekeeper = claimant.timekeeper
        self.claimant, self._runs, self._ended = claimant, runs, ended
        self._databases = [claimant.database]
        self._writer: HistoryWriter | None = None
        """None: another replica's is used, or none writes."""
        if history is None and settings.history:
            chronicle = Database.of(settings, role="history")
            self._databases.append(chronicle)
            recorder = Recorder(repository.holder, settings.history)
            version = settings.app_version or ""
            self._writer = HistoryWriter(recorder, chronicle, version=version)
            history = SharedHistory(self._writer, [])
        self.history = history
        self._destination = runs or Publisher(
            app, claimant.beat_schedule, timeout=settings.broker_timeout
        )
        stored = StoredSync(
            *(agenda, repository, timekeeper),
            Definitions(app, self._destination, note_other_definitions),
            every=pace.follow_every,
        )
        self.pending = PendingWrites(repository, timekeeper, history)
        sending = Sending(
            *(self._destination, self.pending, timekeeper, stored),
            schema=settings.schema,
            holder=str(repository.holder),
            trace=tracing.hook(settings),
            unbuilt={
                one.name: claimant.beat_schedule.schedule[one.name]
                for one in claimant.entries
            },
            built=_freeze_heap if freeze_heap else lambda: None,
        )
        gate = gate_of(settings, app)
        recording = RecordingGate(gate, runs)
        self.shut: Shut | None = closed_databases_of(gate)
        """What its gate lets nothing through to; None: it cannot say."""
        self.held: Held = recording.recent
        """What its gate held back lately."""
        self.service = Service(
            *(agenda, repository, timekeeper, sending, self.pending, recording),
            pace=pace,
            stored=stored,
            held=self.held,
        )
        self._heart = Heartbeat(settings, kind=claimant.kind, clock=SYSTEM)
        self._stopping = False
        """Whether it was asked to stop: an end before that is a failure."""
        self.loop = Loop(
            self._step,
            name=f"pecker-{claimant.kind}",
            leave=self._leave,
            may_end=True,
        )
        abandon_in_forks(self)

    def start(self) -> None:
        """Start the loop."""
        if self._writer is not None:
            self._writer.start()
        self.loop.start()

    def stop(self) -> None:
        """Claim nothing more, and leave. Safe in a signal handler, idempotent."""
        self._stopping = True
        self.service.stop()
        self.loop.stop()

    def join(self, timeout: float = LAST_BATCH) -> bool:
        """Wait for the batch in flight; whether the loop has left."""
        return self.loop.join(timeout)

    def close_history(self, timeout: float = LAST_BATCH) -> None:
        """Have the last reports written, if that is possible at once."""
        if self._writer is not None:
            self._writer.stop()
            self._writer.join(timeout)

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
        return self._heart.beats

    def _step(self) -> float:
        """Do all that is due now, on the loop's thread; return the seconds to sleep."""
        self._heart.beat()
        database = self.claimant.database
        if not database.connected:
            check_schema(database, app=self.claimant.settings.app)
        if self._runs is not None:
            self.pending.count_missed(self._runs.take_missed())
        return self.service.step()

    def _leave(self) -> None:
        """Close what the loop used, on its thread; log an unrequested end."""
        self._destination.close()
        self.claimant.database.close()
        if self._stopping:
            self._heart.stop()
        else:
            self._ended(str(self.loop.failure or "its thread has ended; see the log"))

    def abandon(self) -> None:
        """Let go of the connections of the process that this one was forked from."""
        for database in self._databases:
            database.abandon()
        self._destination.abandon()

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


def _freeze_heap() -> None:
    """Leave all that was made at start out of later garbage collections.

    Celery and a thousand prepared messages are a heap that a full collection walks
    for 60 ms, and the next one always came in the middle of some wake-up: every tenth
    slot or so was that much late.
    """
    gc.collect()
    gc.freeze()
