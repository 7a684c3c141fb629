"""The schedulers of one worker.

What can be refused is refused while the worker is put together, in one line, as beat
does: a worker that silently has no schedules would be worse.
"""

import logging
import threading
from collections.abc import Callable
from typing import Any

from celery.platforms import EX_FAILURE
from celery.worker import state

from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import DatabaseUnavailable
from celery_pecker.kernel.schema_check import check_schema
from celery_pecker.kernel.settings import Settings
from celery_pecker.kernel.workers import GLANCE, kind_of, wait_for
from celery_pecker.schedules.declarations.beat_schedule import BeatSchedule
from celery_pecker.schedules.local import LocalRunner, sends_events
from celery_pecker.schedules.replica import Claimant, Process, Replica

logger = logging.getLogger("celery_pecker.worker")


class Replicas:
    """One that publishes, and one for local runs if there are any."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker
        self._leaving = False
        self._runner: LocalRunner | None = None
        self._close: Callable[[], None] = lambda: None
        self._settings = Settings.read(worker.app.conf, main=worker.app.main)
        self._beat_schedule = BeatSchedule(worker.app)
        self._process = Process(self._composed(), hostname=worker.hostname)
        _look(self._settings)

    def _composed(self) -> list[Replica]:
        app, beat_schedule = self._worker.app, self._beat_schedule
        made = Replica(
            Claimant(app, beat_schedule, self._settings, kind="worker"),
            ended=_end,
            note_other_definitions=self._begin_local,
            freeze_heap=self._freeze_heap,
        )
        if len(made.claimant.entries) == len(beat_schedule.schedule):
            return [made]
        return [made, self._local(made)]

    @property
    def _freeze_heap(self) -> bool:
        # Elsewhere the tasks of this very process would be frozen with it.
        return kind_of(self._worker.pool_cls) == "prefork"

    def _begin_local(self) -> None:
        """Run stored schedules here that are to run in workers; on a replica's thread.

        A worker without such entries in its code has no replica for them until then.
        """
        if self._runner is None and not self._leaving:
            self._process.add(self._local(self._process.replicas[0]))

    def _local(self, made: Replica) -> Replica:
        """Return a replica that runs local entries, beside the one that publishes."""
        worker, beat_schedule = self._worker, self._beat_schedule
        app, settings = worker.app, self._settings
        claimant = Claimant(app, beat_schedule, settings, kind="local")
        runner = LocalRunner(
            app,
            now_us=claimant.timekeeper.now_us,
            hostname=worker.hostname,
            threads=settings.local_threads,
            recorder=made.history,
            schema=settings.schema,
            pool_kind=kind_of(worker.pool_cls),
            wanted=sends_events(worker),
        )
        local = Replica(
            claimant,
            runs=runner,
            history=made.history.for_scheduler() if made.history is not None else None,
            ended=_end,
            freeze_heap=self._freeze_heap,
        )
        # What cannot run here is refused before the start
        for entry in claimant.entries:
            runner.prepare(beat_schedule.schedule[entry.name])
        self._runner = runner
        return local

    def start(self) -> None:
        """Start all replicas: they compete."""
        self._close = self._process.start()

    def leave(self) -> None:
        """Claim nothing more. Safe in a signal handler, idempotent."""
        self._leaving = True
        self._process.stop()

    def join(self, *, patient: bool) -> None:
        """Wait for the batches in flight: half a second at most, whatever hangs.

        ``patient``: and for local runs, as Celery waits for tasks, until a cold
        shutdown is requested.
        """
        self.leave()
        self._process.join()
        if self._runner is not None:
            self._runner.stop()
            runner = self._runner
            wait_for(
                lambda seconds: runner.join(seconds) or not runner.busy, patient=patient
            )
        self._process.close_history(GLANCE)
        close, self._close = self._close, lambda: None
        threading.Thread(target=close, daemon=True).start()  # it waits for a poll

    def info(self) -> list[dict[str, Any]]:
        """Return what people may want to know, as JSON has it."""
        shown = self._process.info()
        if self._runner is not None:
            shown[len(self._process.replicas) - 1]["runs"] = self._runner.stats()
        return shown


def _look(settings: Settings) -> None:
    """Refuse a database that a scheduler cannot live with, as far as it answers.

    On a connection of its own, which is closed before the pool forks. One that is away
    is waited for by the replica: tasks do not need it.
    """
    database = Database.of(settings)
    try:
        check_schema(database, app=settings.app)
    except DatabaseUnavailable as error:
        logger.warning("pecker: the worker starts without its schedules: %s", error)
    finally:
        database.close()


def _end(why: str) -> None:
    """Shut the worker down: its scheduler cannot go on, which would not be noticed.

    As Celery's own signal handlers do it; its consumer looks every second or so.
    """
    logger.critical("pecker: the worker ends, since its scheduler has ended: %s", why)
    state.should_stop = EX_FAILURE  # type: ignore[assignment]  # None until then
