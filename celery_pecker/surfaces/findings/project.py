"""What findings are read from: an app, its settings, its tables."""

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from celery import Celery
from celery.beat import ScheduleEntry

from celery_pecker.kernel import user_code
from celery_pecker.kernel.app_modules import load_app
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import PeckerError
from celery_pecker.kernel.settings import Settings
from celery_pecker.outbox.app import settings_of
from celery_pecker.outbox.overview import OutboxOverview, OutboxSummary
from celery_pecker.outbox.parallel_queries import ParallelQueries
from celery_pecker.schedules import ScheduleRow, Schedules
from celery_pecker.schedules.declarations.beat_schedule import BeatSchedule
from celery_pecker.schedules.declarations.reading import entries
from celery_pecker.schedules.engine.model import Entry, Row, RunMode
from celery_pecker.schedules.engine.repository import CHUNK, Repository
from celery_pecker.schedules.overview import Overview, Totals
from celery_pecker.surfaces.views.phrases import count

NAMED = 3
"""Names that stand in a sentence."""
MOST = 1_000
"""Stored schedules that are looked at."""


class Scheduled(NamedTuple):
    """An entry that is published, and where its messages go."""

    name: str
    task: str
    queue: str


def named(names: Sequence[str], total: int | None = None) -> str:
    """Return the first of them, and how many more there are. Pure."""
    more = (len(names) if total is None else total) - len(names[:NAMED])
    return ", ".join(names[:NAMED]) + (f" and {count(more)} more" if more > 0 else "")


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
    def _in_code(self) -> dict[str, ScheduleEntry]:
        load_app(self.app)
        in_code: dict[str, ScheduleEntry] = BeatSchedule(self.app).schedule
        return in_code

    @cached_property
    def declared(self) -> dict[str, Entry]:
        """What the code of this app declares, as its schedulers read it."""
        made = entries(self._in_code, self.app, conf=self.app.conf)
        return {entry.name: entry for entry in made}

    @cached_property
    def schedules(self) -> Schedules:
        """The stored schedules of the app."""
        return Schedules(self.app)

    @cached_property
    def totals(self) -> Totals:
        """The figures of all entries, of this look."""
        return self.overview.totals()

    @cached_property
    def stored(self) -> Sequence[ScheduleRow]:
        """The stored schedules that are there, in this look."""
        return self.schedules.list(limit=MOST)

    @property
    def scheduled(self) -> list[Scheduled]:
        """The entries that are published, as far as it is known where to."""
        published: list[tuple[str, str, Mapping[str, Any]]] = [
            (name, one.task, self._in_code[name].options or {})
            for name, one in self.declared.items()
            if one.policy.run is RunMode.DISPATCH
        ]
        with suppress(PeckerError):  # the database is away: that is found by itself
            published += [
                (one.name, one.task, one.options or {})
                for one in self.stored
                if one.policies.get("run") != RunMode.LOCAL and not one.paused
            ]
        return [
            Scheduled(name, task, queue)
            for name, task, options in published
            if (queue := self._queue(task, options))
        ]

    def _queue(self, task: str, options: Mapping[str, Any]) -> str:
        """Return where messages of a task go; empty where code does not say."""
        route = self.app.amqp.router.route
        none: Mapping[str, Any] = {}
        to = user_code.call(f"routing {task}", none, route, {**options}, task)
        queue = to.get("queue", "")
        return str(getattr(queue, "name", queue))

    def look_again(self) -> None:
        """Forget what is read once in a look."""
        for name in ("totals", "stored"):
            vars(self).pop(name, None)

    def close(self) -> None:
        """Close the connections that were needed."""
        self.database.close()
        if "schedules" in vars(self):
            self.schedules.close()

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
