"""The page *Now*: what is wrong, looked at on a thread of its own while somebody looks.

A page that waited for what is away could not say that it is away: so it shows the last
look, and each question has one begun that is older than some seconds.
"""

import threading
from dataclasses import replace
from typing import Any

from celery import Celery

from celery_pecker.kernel import user_code
from celery_pecker.kernel.clock import SYSTEM, Clock, to_us
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import PeckerError
from celery_pecker.kernel.settings import Settings
from celery_pecker.surfaces.findings.look import Report, look
from celery_pecker.surfaces.findings.model import fail
from celery_pecker.surfaces.findings.project import Project
from celery_pecker.surfaces.findings.view import NOW, shown
from celery_pecker.surfaces.flower.pages import Page, Query, Source
from celery_pecker.surfaces.flower.rendering import acts_of, document
from celery_pecker.surfaces.flower.schedules import wanted
from celery_pecker.surfaces.flower.stored_schedules import schedules_of
from celery_pecker.surfaces.views.phrases import duration

EVERY = 1.0
"""Seconds from the end of a look to the next."""
FIRST = 3.0
"""Seconds for which the first page waits for the first look."""
STALE = 30.0
"""Seconds after which what was seen last says nothing of now."""


class Watch:
    """The last look at an app; one for all threads."""

    def __init__(self, app: Celery, clock: Clock = SYSTEM) -> None:
        self._app = app
        self._clock = clock
        self._turn = threading.Lock()
        self._looked = threading.Event()
        self._project: Project | None = None
        self._report: Report | None = None
        self._next = 0.0

    def report(self) -> Report | None:
        """Return the last look, and have one begun that is newer; None: none ended.

        A look that does not end says so, too: it is no news that all is well.
        """
        if self._clock.monotonic() >= self._next and self._turn.acquire(blocking=False):
            name = "pecker-now"
            threading.Thread(target=self._run, name=name, daemon=True).start()
        self._looked.wait(FIRST)
        silent = self._clock.monotonic() - self._next
        if self._report is None or silent < STALE or not self._turn.locked():
            return self._report
        wrong = fail(
            "look",
            f"no look has ended for {duration(silent)}: what hangs is not known",
            "restart Flower, and ask celery -A proj pecker doctor",
        )
        return replace(self._report, causes=[wrong, *self._report.causes])

    def _run(self) -> None:
        try:
            self._report = user_code.call("looking", self._report, self._look)
        finally:
            self._next = self._clock.monotonic() + EVERY
            self._turn.release()
            self._looked.set()

    def _look(self) -> Report:
        try:
            if self._project is None:
                settings = Settings.read(self._app.conf, main=self._app.main)
                database = Database.of(settings, role="flower")
                self._project = Project(self._app, settings, database)
        except PeckerError as error:
            wrong = [fail("settings", str(error), "mend them, and restart Flower")]
            return Report(now_us=to_us(SYSTEM.now()), findings=wrong, causes=wrong)
        before = self._report.findings if self._report else ()
        since = {one.check: one.since_us for one in before if one.since_us is not None}
        return look(self._project, since)


def _acted_on(source: Source) -> Project:
    project = Project(source.app, source.settings, source.database)
    project.schedules = schedules_of(source.app)
    return project


def read(watch: Watch, query: Query) -> dict[str, Any]:
    """Return what the last look found."""
    report = watch.report()
    if report is None:
        report = Report(now_us=to_us(SYSTEM.now()), findings=(), causes=())
    return document(NOW, shown(report))


PAGE = Page(
    name="now",
    title="Now",
    url="/now",
    template="now.html",
    view=NOW,
    opens=Watch,
    read=read,
    does=acts_of(NOW, _acted_on),
    shown=wanted,
    counts=True,
)
