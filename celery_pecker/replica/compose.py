"""How a replica is put together."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable

from celery import Celery

from celery_pecker import declarations, signals, tracing
from celery_pecker.heartbeat import Heart
from celery_pecker.history import HistoryWriter, NoHistory, Recorder
from celery_pecker.kernel.clock import SYSTEM, new_id
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.lease import SECOND
from celery_pecker.kernel.loop import Loop
from celery_pecker.kernel.schema_check import stand
from celery_pecker.kernel.settings import Settings
from celery_pecker.publisher import Publisher
from celery_pecker.replica.alarms import shut_of
from celery_pecker.replica.definitions import Definitions
from celery_pecker.replica.dispatching import (
    Both,
    Destination,
    Prepared,
    Remembering,
    Runs,
    gate_of,
)
from celery_pecker.replica.replica import Replica
from celery_pecker.replica.shared_history import SharedHistory
from celery_pecker.schedules.agenda import Agenda
from celery_pecker.schedules.fates import Fates
from celery_pecker.schedules.model import RunMode
from celery_pecker.schedules.repository import Repository
from celery_pecker.schedules.sending import Sending
from celery_pecker.schedules.service import Service
from celery_pecker.schedules.stored_sync import StoredSync
from celery_pecker.schedules.timekeeper import Timekeeper
from celery_pecker.schedules.upkeep import Pace


def compose(  # noqa: PLR0913  # what two kinds of processes have in common and not
    app: Celery,
    beat_schedule: declarations.BeatSchedule,
    settings: Settings,
    *,
    kind: str,
    destination: Destination | None = None,
    history: SharedHistory | None = None,
    ended: Callable[[str], None] = lambda _: None,
    elsewhere: Callable[[], None] = lambda: None,
    freeze_heap: bool = True,
) -> Replica:
    """Return a replica, not yet started, for the entries of its kind.

    ``kind`` is 'beat' or 'worker' (they publish) or 'local' (which needs a way out).
    ``history`` is another replica's, in the same process.
    ``ended`` is called on the replica's thread if that ends untold, ``elsewhere`` when
    it sees stored schedules that replicas of the other kind run.
    """
    mode = RunMode.LOCAL if kind == "local" else RunMode.DISPATCH
    declared = declarations.entries(beat_schedule.schedule, app, conf=app.conf)
    entries = [entry for entry in declared if entry.policy.run is mode]
    holder = new_id()
    database = Database.of(settings)
    databases, writer = [database], None
    if history is None and settings.history:
        chronicle = Database.of(settings, role="history")
        databases.append(chronicle)
        writer = HistoryWriter(
            Recorder(holder, settings.history), chronicle, clock=SYSTEM
        )
        history = SharedHistory(writer, [])
    publisher = destination or Publisher(
        app, beat_schedule, timeout=settings.broker_timeout
    )
    runs = publisher if isinstance(publisher, Runs) else None
    pace = Pace(slack=settings.clock_slack, timeout=settings.database_timeout)
    agenda = Agenda(entries, slack_us=int(pace.slack * SECOND))
    repository = Repository(database, holder, kind=kind)
    timekeeper = Timekeeper(SYSTEM, repository, agenda)
    stored = StoredSync(
        *(agenda, repository.stored, timekeeper),
        Definitions(app, publisher, elsewhere),
        every=pace.follow_every,
    )
    fates = Fates(repository)
    sending = Sending(
        Prepared(
            publisher,
            [beat_schedule.schedule[entry.name] for entry in entries],
            _settle_heap if freeze_heap else lambda: None,
            clock=SYSTEM,
        ),
        fates,
        timekeeper,
        stored,
        schema=settings.schema,
        holder=str(holder),
        skew=settings.clock_skew,
        trace=tracing.hook(settings),
    )
    gate = gate_of(settings, app)
    remembering = Remembering(gate)
    service = Service(
        agenda,
        repository,
        timekeeper,
        sending,
        fates,
        remembering if runs is None else Both(remembering, runs),
        pace=pace,
        stored=stored,
        history=history or NoHistory(),
        held=remembering.lately,
    )
    if runs is not None:
        # Else a run without a deadline would be reported by this host's clock.
        runs.now_us = timekeeper.now_us
    heart = Heart(settings, kind=kind, clock=SYSTEM)

    def step() -> float:
        replica.tally.thread = threading.get_ident()
        heart.beat()
        if not database.connected:
            stand(database, app=settings.app)
        if runs is not None:
            fates.count_missed(runs.take_missed())
        return service.step()

    def leave() -> None:
        signals.woke.disconnect(replica.tally.woke)
        signals.missed.disconnect(replica.tally.missing)
        publisher.close()
        database.close()
        if replica.stopping:
            heart.stop()
        else:
            ended(str(replica.loop.failure or "its thread has ended; see the log"))

    replica = Replica(
        kind=kind,
        holder=str(holder),
        entries=entries,
        loop=Loop(step, name=f"pecker-{kind}", clock=SYSTEM, leave=leave),
        service=service,
        databases=databases,
        destination=publisher,
        heart=heart,
        history=history,
        writer=writer,
        shut=shut_of(gate),
        held=remembering.lately,
    )
    return replica


def _settle_heap() -> None:
    """Leave all that was made at start out of later garbage collections.

    Celery and a thousand prepared messages are a heap that a full collection walks
    for 60 ms, and the next one always came in the middle of some wake-up: every tenth
    slot or so was that much late.
    """
    gc.collect()
    gc.freeze()
