"""What every command of pecker works with: settings, tables, declarations."""

from contextlib import suppress
from functools import cached_property

from celery_pecker.kernel.clock import from_us
from celery_pecker.kernel.declared import suggestion
from celery_pecker.kernel.errors import PeckerError, UnknownSchedule
from celery_pecker.schedules import Schedules
from celery_pecker.schedules.engine.model import Entry
from celery_pecker.schedules.overview import Overview
from celery_pecker.surfaces.console import instants
from celery_pecker.surfaces.console.context import as_json, number
from celery_pecker.surfaces.console.database_context import DatabaseContext
from celery_pecker.surfaces.console.documents import instant, plain
from celery_pecker.surfaces.console.exits import NO, UNKNOWN, YES
from celery_pecker.surfaces.findings.project import Project

__all__ = [
    "NO",
    "UNKNOWN",
    "YES",
    "Context",
    "as_json",
    "instant",
    "limited",
    "number",
    "plain",
]

NONE = "-"
MOST_NAMES = 1_000
"""Names of entries that a misspelt one is compared with."""

limited = number("--limit", 1, 1_000, "Rows shown at most.", 100)


class Context(DatabaseContext):
    """One call of one command."""

    def close(self) -> None:
        """Close the connections."""
        super().close()
        if "project" in vars(self):
            self.project.close()

    def hint(self, error: Exception) -> str:
        """Return names of entries that an unknown one may have meant."""
        if not isinstance(error, UnknownSchedule):
            return ""
        with suppress(PeckerError):  # the tables are away: there is no hint
            return suggestion(error.name, self.names)
        return ""

    @property
    def names(self) -> list[str]:
        """The names of entries, in the tables and in this code."""
        page = self.overview.page(limit=MOST_NAMES)
        return [*self.declared, *(row.name for row in page.rows)]

    @cached_property
    def project(self) -> Project:
        """The app with its tables."""
        return Project(self.app, self.settings, self.database)

    @property
    def overview(self) -> Overview:
        """The reader of the tables."""
        return self.project.overview

    @property
    def schedules(self) -> Schedules:
        """The stored schedules of the app."""
        return self.project.schedules

    @property
    def declared(self) -> dict[str, Entry]:
        """What the code of this app declares, as its schedulers read it."""
        return self.project.declared

    def at(self, instant_us: int | None) -> str:
        """Return an instant for people: to the millisecond, in the app's time zone."""
        if instant_us is None:
            return NONE
        return instants.for_people(from_us(instant_us), self.zone)
