"""Reports the outcome of runs to the history, without making a run wait.

In a worker's main process, whatever its pool is. Reports go to a writer
(celery_pecker.schedules.history) that begins with the first of them. Nothing is ever
due here, so it may write at any time. A run that goes on for some seconds is reported
as running.
"""

import threading

from celery_pecker.kernel.clock import SYSTEM, new_id, to_us
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.figures import Spent, spent_by
from celery_pecker.kernel.forks import abandon_in_forks
from celery_pecker.kernel.settings import Settings
from celery_pecker.runs.instants import Instants
from celery_pecker.runs.run import Run
from celery_pecker.schedules.history.recorder import Recorder
from celery_pecker.schedules.history.report import Report
from celery_pecker.schedules.history.writer import HistoryWriter

ALWAYS = float("inf")
LONG = 2.0
"""Seconds after which a run is reported as running."""
LOOK = 2.0
"""Seconds between two looks for such runs."""
MAX_WATCHED = 10_000
"""Runs, at most, that are looked at."""


class Reports:
    """What this process reports of runs."""

    def __init__(self, settings: Settings, instants: Instants, *, host: str) -> None:
        self._settings = settings
        self._instants = instants
        self._host = host
        self._database = Database.of(settings, role="reports")
        self._mutex = threading.Lock()
        self._writer: HistoryWriter | None = None
        self._running: dict[str, tuple[Run, float]] = {}
        """Runs that are not yet reported as running."""
        self._long: dict[str, Run] = {}
        """Those that are."""
        abandon_in_forks(self)

    def begin(self, task_id: str, run: Run) -> None:
        """Report the run as running if it goes on for long; never wait."""
        if (
            self._settings.history
            and not run.inherited
            and len(self._running) < MAX_WATCHED
        ):
            self._running[task_id] = run, SYSTEM.monotonic()
            self._writing()

    def forget(self, task_id: str) -> None:
        """Forget a run that has ended; what became of it may be reported next."""
        self._running.pop(task_id, None)
        run = self._long.pop(task_id, None)
        if run is not None:
            self._writing().recorder.leave(run.name, run.due_us, run.era)

    def add(
        self, run: Run, report: Report, error: str = "", took: float | None = None
    ) -> None:
        """Have the report written soon; never wait.

        ``took``: seconds, of a run that has ended.
        """
        if not self._settings.history or run.inherited:
            return
        at_us, spent = to_us(self._instants.after(0.0)), None
        if took is not None:
            spent = spent_by(at_us, took, run.epoch, first=run.attempt == 0)
        self._note(run, at_us, report, error, spent)

    def put_off(self, run: Run) -> None:
        """Have written that it has begun and goes on later, in whatever process."""
        self.add(run, Report.STARTED)
        if self._writer is not None:
            self._writer.recorder.leave(run.name, run.due_us, run.era)

    def _note(
        self,
        run: Run,
        at_us: int,
        report: Report,
        error: str = "",
        spent: Spent | None = None,
    ) -> None:
        writer, slot = self._writing(), (run.name, run.due_us, run.era, run.epoch)
        writer.note(*slot, at_us, report, error, spent)
        writer.allow(ALWAYS)

    def close(self, timeout: float = 0.5) -> None:
        """Have written what can be within that time."""
        if self._writer is not None:
            self._writer.stop()
            self._writer.join(timeout)

    def abandon(self) -> None:
        """Drop the connection in a fork of its owner."""
        self._database.abandon()

    def _writing(self) -> HistoryWriter:
        writer = self._writer
        if writer is not None:
            return writer
        with self._mutex:
            if self._writer is None:
                recorder = Recorder(new_id(), self._settings.history, host=self._host)
                self._writer = HistoryWriter(
                    recorder, self._database, look=self._look, every=LOOK
                )
                self._writer.start()
            return self._writer

    def _look(self) -> None:
        """Report the runs that have gone on for long. On the writer's thread.

        A run may end meanwhile: its end is reported behind this, and with a later
        instant.
        """
        before = SYSTEM.monotonic() - LONG
        for task_id, (run, began) in [*self._running.items()]:
            at_us = to_us(self._instants.after(0.0))
            if began > before or task_id not in self._running:
                continue
            self._note(run, at_us, Report.RUNNING)
            self._long[task_id] = run
            if self._running.pop(task_id, None) is None:
                self.forget(task_id)
