"""What every command over tables of PostgreSQL works with."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

from celery import Celery

from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import (
    BrokerUnavailable,
    DatabaseUnavailable,
    PeckerError,
)
from celery_pecker.kernel.settings import Settings
from celery_pecker.kernel.sql import OURS
from celery_pecker.surfaces.console.context import CommandContext


class DatabaseContext(CommandContext):
    """One call of one command; each package adds what it reads the tables by."""

    no_answer = (DatabaseUnavailable, BrokerUnavailable)
    failures = (PeckerError,)
    package: ClassVar[str] = OURS
    """Whose statements are run."""

    @classmethod
    def read_settings(cls, app: Celery) -> Settings:
        """Return the settings of the tables."""
        return Settings.read(app.conf, main=app.main)

    @cached_property
    def database(self) -> Database:
        """The tables, over a connection that is made when first needed."""
        return Database.of(self.settings, role="cli", package=self.package)

    def close(self) -> None:
        """Close the connection, if it was needed."""
        if "database" in vars(self):
            self.database.close()
