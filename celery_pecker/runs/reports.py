"""Tells the history what became of runs, without making anybody wait.

A run that was ended because PostgreSQL does not answer must not wait for PostgreSQL
to say so. Reports go to a scribe (celery_pecker.history) that begins with the first of
them in each process. Nothing is ever due here, so it may write at any time.
"""

from __future__ import annotations

import os
import threading

from celery_pecker.clock import SYSTEM, new_id, to_us
from celery_pecker.database import Database
from celery_pecker.history import Recorder, Report, Scribe
from celery_pecker.runs.instants import Instants
from celery_pecker.runs.run import Run
from celery_pecker.settings import Settings

ALWAYS = float("inf")


class Reports:
    """What this process reports of runs."""

    def __init__(self, settings: Settings, instants: Instants) -> None:
        self._settings = settings
        self._instants = instants
        self._database = Database.of(settings, role="reports")
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._scribe: Scribe | None = None

    def tell(self, run: Run, report: Report) -> None:
        """Have it written soon; never waits."""
        if not self._settings.history or run.inherited:
            return
        if os.getpid() != self._pid:
            self._database.abandon()
            self._begin()
        at_us = to_us(self._instants.after(0.0))
        scribe = self._writing()
        scribe.note(run.name, run.due_us, run.era, run.epoch, at_us, report)
        scribe.allow(ALWAYS)

    def close(self, timeout: float = 1.0) -> None:
        """Have written what can be within that time; for tests and last words."""
        if self._scribe is None or os.getpid() != self._pid:
            return
        self._scribe.stop()
        self._scribe.join(timeout)

    def _writing(self) -> Scribe:
        with self._mutex:
            if self._scribe is None:
                recorder = Recorder(new_id(), self._settings.history)
                self._scribe = Scribe(recorder, self._database, clock=SYSTEM)
                self._scribe.start()
            return self._scribe
