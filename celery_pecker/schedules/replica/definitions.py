"""How a replica is put together."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from celery import Celery

from celery_pecker.brokers.publisher import Publisher
from celery_pecker.heartbeat import Heartbeat
from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.kernel.user_code import Exited, no_exit
from celery_pecker.schedules import tracing
from celery_pecker.schedules.declarations.beat_schedule import PeckerEntry
from celery_pecker.schedules.engine.model import Entry, StoredSchedule
from celery_pecker.schedules.engine.pending_writes import PendingWrites
from celery_pecker.schedules.engine.sending import Sending
from celery_pecker.schedules.engine.service import Service
from celery_pecker.schedules.engine.stored_sync import StoredSync
from celery_pecker.schedules.history.recorder import Recorder
from celery_pecker.schedules.history.writer import HistoryWriter, SharedHistory
from celery_pecker.schedules.replica.alarms import closed_databases_of
from celery_pecker.schedules.replica.dispatching import RecordingGate, gate_of
from celery_pecker.schedules.replica.replica import Claimant, Replica
from celery_pecker.schedules.stored.checks import check_running
from celery_pecker.schedules.stored.timings import Timings

if TYPE_CHECKING:
    from celery_pecker.schedules.local.runner import LocalRunner


@dataclass
class Definitions:
    """Reads rows for one replica; not for several threads."""

    app: Celery
    destination: Publisher | LocalRunner
    note_other_definitions: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self._timings = Timings(self.app)

    def entry(self, row: StoredSchedule) -> Entry:
        """Return the entry; raise whatever is wrong with the row."""
        try:
            return self._timings.of_row(row)
        except SystemExit as error:
            message = f"stored schedule {row.name!r} raised {error!r}"
            raise Exited(message) from error

    def build(self, row: StoredSchedule) -> None:
        """Build the message; raise BrokerUnavailable, or what is wrong with the row."""
        where = f"stored schedule {row.name!r}"
        for key, kind, allowed in (
            ("args", list, "a list"),
            ("kwargs", dict, "an object"),
        ):
            value = getattr(row, key)
            if not isinstance(value, kind):
                Misconfigured.refuse(f"{where}: {key}", value, f"is {allowed}")
        check_running(row.options, self._timings.allow_list)
        with no_exit(where):
            entry = PeckerEntry(
                name=row.name,
                task=row.task,
                schedule=1.0,  # never read: the agenda has its due instants
                args=tuple(row.args),
                kwargs=row.kwargs,
                options=row.options,
                app=self.app,
            )
            wrong = self.destination.prepare(entry)
        if wrong is not None:
            text = f"{where}: its message cannot be built: {wrong}"
            raise Misconfigured(text)

    def forget(self, name: str) -> None:
        """Forget the message."""
        self.destination.forget(name)


def compose(
    claimant: Claimant,
    *,
    runs: LocalRunner | None = None,
    history: SharedHistory | None = None,
    ended: Callable[[str], None] = lambda _: None,
    note_other_definitions: Callable[[], None] = lambda: None,
    freeze_heap: bool = True,
) -> Replica:
    """Return a replica, not yet started, of a claimant.

    ``runs``: where slots run in this process, for a claimant of the kind 'local';
    None: they are published.
    ``history`` is another replica's, in the same process.
    ``ended`` is called on the replica's thread if that ends by itself,
    ``note_other_definitions`` when it sees stored schedules that replicas of the other
    kind run.
    """
    app, settings, pace = claimant.app, claimant.settings, claimant.pace
    repository, timekeeper = claimant.repository, claimant.timekeeper
    databases, writer = [claimant.database], None
    if history is None and settings.history:
        chronicle = Database.of(settings, role="history")
        databases.append(chronicle)
        recorder = Recorder(repository.holder, settings.history)
        version = settings.app_version or ""
        writer = HistoryWriter(recorder, chronicle, version=version)
        history = SharedHistory(writer, [])
    destination = runs or Publisher(
        app, claimant.beat_schedule, timeout=settings.broker_timeout
    )
    stored = StoredSync(
        *(claimant.agenda, repository, timekeeper),
        Definitions(app, destination, note_other_definitions),
        every=pace.follow_every,
    )
    pending = PendingWrites(repository, timekeeper, history)
    sending = Sending(
        destination,
        pending,
        timekeeper,
        stored,
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
    remembering = RecordingGate(gate, runs)
    service = Service(
        claimant.agenda,
        repository,
        timekeeper,
        sending,
        pending,
        remembering,
        pace=pace,
        stored=stored,
        held=remembering.recent,
    )
    return Replica(
        claimant=claimant,
        service=service,
        pending=pending,
        databases=databases,
        destination=destination,
        runs=runs,
        heart=Heartbeat(settings, kind=claimant.kind, clock=SYSTEM),
        history=history,
        writer=writer,
        shut=closed_databases_of(gate),
        held=remembering.recent,
        ended=ended,
    )


def _freeze_heap() -> None:
    """Leave all that was made at start out of later garbage collections.

    Celery and a thousand prepared messages are a heap that a full collection walks
    for 60 ms, and the next one always came in the middle of some wake-up: every tenth
    slot or so was that much late.
    """
    gc.collect()
    gc.freeze()
