"""What findings are read from: an app, its settings, its tables."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import cached_property

from celery import Celery

from celery_pecker.kernel.app_modules import load_app
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import PeckerError
from celery_pecker.kernel.settings import Settings
from celery_pecker.outbox.app import settings_of
from celery_pecker.outbox.overview import OutboxOverview, OutboxSummary
from celery_pecker.outbox.parallel_queries import ParallelQueries
from celery_pecker.schedules.declarations import BeatSchedule, entries
from celery_pecker.schedules.engine.model import Entry, Row
from celery_pecker.schedules.engine.repository import CHUNK, Repository
from celery_pecker.schedules.overview import Overview


@dataclass
class Project:
    """An app as whoever looks at it was started with."""

    app: Celery
    settings: Settings
    database: Database

    @cached_property
    def overview(self) -> Overview:
        """The reader of the tables."""
        return Overview(self.database)

    @cached_property
    def declared(self) -> dict[str, Entry]:
        """What the code of this app declares, as its schedulers read it."""
        load_app(self.app)
        beat_schedule = BeatSchedule(self.app)
        return {
            entry.name: entry
            for entry in entries(beat_schedule.schedule, self.app, conf=self.app.conf)
        }

    @property
    def outboxes(self) -> dict[str, Settings]:
        """The settings of each outbox by its name, those of task modules too."""
        load_app(self.app)
        return {"default": self.settings, **settings_of(self.app, self.settings)}

    def summaries(self) -> dict[str, OutboxSummary | PeckerError]:
        """Return what each outbox of the app holds, or why it did not answer."""
        databases = {
            name: Database.of(settings, role="cli")
            for name, settings in self.outboxes.items()
        }
        try:
            return ParallelQueries(
                {name: OutboxOverview(one).summary for name, one in databases.items()}
            ).ask()
        finally:
            for database in databases.values():
                database.close()

    def rows(self, names: list[str]) -> tuple[int, dict[str, Row]]:
        """Return the database's time, and the rows of entries."""
        repository = Repository(self.database, uuid.UUID(int=0))
        now_us, rows = repository.read(names[:CHUNK])
        for start in range(CHUNK, len(names), CHUNK):
            now_us, more = repository.read(names[start : start + CHUNK])
            rows |= more
        return now_us, rows
