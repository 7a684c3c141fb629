"""How a replica is put together."""

from __future__ import annotations

import gc
from collections.abc import Callable

from celery_pecker import tracing
from celery_pecker.heartbeat import Heartbeat
from celery_pecker.history import HistoryWriter, NoHistory, Recorder
from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.kernel.database import Database
from celery_pecker.publisher import Publisher
from celery_pecker.replica.alarms import closed_databases_of
from celery_pecker.replica.claimant import Claimant
from celery_pecker.replica.definitions import Definitions
from celery_pecker.replica.dispatching import (
    CombinedGate,
    Prepared,
    RecordingGate,
    Runs,
    gate_of,
)
from celery_pecker.replica.replica import Replica
from celery_pecker.replica.shared_history import SharedHistory
from celery_pecker.schedules.pending_writes import PendingWrites
from celery_pecker.schedules.sending import Sending
from celery_pecker.schedules.service import Service
from celery_pecker.schedules.stored_sync import StoredSync


def compose(
    claimant: Claimant,
    *,
    runs: Runs | None = None,
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
        writer = HistoryWriter(
            Recorder(repository.holder, settings.history), chronicle, clock=SYSTEM
        )
        history = SharedHistory(writer, [])
    destination = runs or Publisher(
        app, claimant.beat_schedule, timeout=settings.broker_timeout
    )
    stored = StoredSync(
        *(claimant.agenda, repository.stored, timekeeper),
        Definitions(app, destination, note_other_definitions),
        every=pace.follow_every,
    )
    pending = PendingWrites(repository)
    sending = Sending(
        Prepared(
            destination,
            [claimant.beat_schedule.schedule[one.name] for one in claimant.entries],
            _freeze_heap if freeze_heap else lambda: None,
            clock=SYSTEM,
        ),
        pending,
        timekeeper,
        stored,
        schema=settings.schema,
        holder=str(repository.holder),
        skew=settings.clock_skew,
        trace=tracing.hook(settings),
    )
    gate = gate_of(settings, app)
    remembering = RecordingGate(gate)
    service = Service(
        claimant.agenda,
        repository,
        timekeeper,
        sending,
        pending,
        remembering if runs is None else CombinedGate(remembering, runs),
        pace=pace,
        stored=stored,
        history=history or NoHistory(),
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
