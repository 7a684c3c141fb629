"""Edits of stored schedules in a request of Django, in the name of its user."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from celery import Celery
from django.db import connections, transaction

from celery_pecker.django import databases, project
from celery_pecker.django.databases import Alias
from celery_pecker.kernel.audit import recorded, recorded_over
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import UnknownSchedule
from celery_pecker.schedules.overview import Overview
from celery_pecker.schedules.stored.app import Schedules
from celery_pecker.schedules.stored.model import ScheduleRow
from celery_pecker.schedules.stored.rows import Reading

MAX_BY = 200
"""Characters of the name of an edit's user."""


@cache
def _schedules(app: Celery) -> Schedules:
    return Schedules(app)


def schedules() -> Schedules:
    """Return the stored schedules of the project's Celery app.

    Raises:
        ImproperlyConfigured: there is no app.
    """
    return _schedules(project.celery_app())


def reading() -> Reading:
    """Return what reads their rows."""
    return Reading(schedules().timings)


class Store:
    """What a user does to stored schedules.

    Each edit is part of the open ``atomic`` block of the admin's database, if that is
    the one of ``pecker_dsn``; else it is committed at once, over a connection of ours.
    """

    def __init__(self, user: Any, only: Collection[str] | None = None) -> None:
        self.by = str(user.get_username())[:MAX_BY]
        self._only = only
        """The names to which something may be done; None: all."""

    def get(self, name: str) -> ScheduleRow | None:
        """Return a schedule."""
        with self._joined() as connection:
            return schedules().get(name, connection=connection)

    def set(self, **fields: Any) -> ScheduleRow:
        """Create or change a schedule. Raises what `Schedules.set` raises."""
        with self._acting("set", fields["name"]) as connection:
            return schedules().set(**fields, by=self.by, connection=connection)

    def change(self, old: str, **fields: Any) -> ScheduleRow:
        """Change a schedule, its name too. Raises what `Schedules.change` raises."""
        with self._acting("set", old) as connection:
            return schedules().change(old, **fields, by=self.by, connection=connection)

    def remove(self, name: str) -> bool:
        """Remove a schedule; say whether there was one."""
        with self._acting("remove", name) as connection:
            return schedules().remove(name, by=self.by, connection=connection)

    def pause(self, name: str, *, by: str) -> None:
        """Let its slots pass."""
        with self._acting("pause", name) as connection:
            schedules().pause(name, by=by, connection=connection)

    def resume(self, name: str, *, by: str) -> None:
        """Let its slots run."""
        with self._acting("resume", name) as connection:
            schedules().resume(name, by=by, connection=connection)

    def run(self, name: str, *, by: str) -> None:
        """Ask for a run now."""
        with self._acting("run", name) as connection:
            if connection is not None:
                tables: Any = Alias(databases.alias(), databases.schema())
                Overview(tables).request_run(name, by=by)
                return
            database = Database.of(project.app_settings(), role="django")
            try:
                Overview(database).request_run(name, by=by)
            finally:
                database.close()

    @contextmanager
    def _joined(self, name: str = "") -> Iterator[Any]:
        """Yield the connection to join, or None; a refusal leaves the block usable."""
        if self._only is not None and name not in self._only:
            raise UnknownSchedule(name, "it is an entry of code, or there is none")
        alias = databases.alias()
        if project.why_without_tables(alias) is not None:
            yield None
            return
        with transaction.atomic(using=alias):
            yield connections[alias]

    @contextmanager
    def _acting(self, act: str, name: str) -> Iterator[Any]:
        """Record an act, in the transaction that it is part of; yield as `_joined`."""
        settings, alias = project.app_settings(), databases.alias()
        told = (f"schedules {act}", name)
        if project.why_without_tables(alias) is not None:
            recording: Any = recorded(settings, *told, by=self.by, surface="admin")
        else:
            tables = Alias(alias, databases.schema())
            recording = recorded_over(tables, settings.app, *told, self.by, "admin")
        with recording, self._joined(name) as connection:
            yield connection
