"""What is parked in the other outboxes of an app: alarms ask them at each look."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from celery_pecker.alarms.model import Finding
from celery_pecker.alarms.tables import Tables
from celery_pecker.kernel.clock import new_id
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import PeckerError
from celery_pecker.kernel.once_a_minute import OnceAMinute
from celery_pecker.kernel.settings import Settings
from celery_pecker.outbox.parallel_queries import ParallelQueries

logger = logging.getLogger("celery_pecker.alarms")


class Parked:
    """Asks each outbox that is not in the tables of the alarms. For one thread."""

    def __init__(self, outboxes: Mapping[str, Settings], own: Settings) -> None:
        others = {
            name: one
            for name, one in outboxes.items()
            if (one.dsn, one.schema) != (own.dsn, own.schema)
        }
        self.databases = {
            name: Database.of(one, role="alarms") for name, one in others.items()
        }
        self._queries = ParallelQueries(
            {name: _question(name, one) for name, one in self.databases.items()}
        )
        self._silent = OnceAMinute(logger, prefix="pecker: ", level=logging.WARNING)

    def __call__(self) -> tuple[list[Finding], bool]:
        """Return what is parked, and whether every outbox has answered."""
        findings: list[Finding] = []
        whole = True
        for name, answer in self._queries.ask().items():
            if isinstance(answer, PeckerError):
                whole = False
                self._silent.warning(name, "no look at the outbox %s: %s", name, answer)
            else:
                findings += answer
        return findings, whole


def _question(name: str, database: Database) -> Callable[[], list[Finding]]:
    tables = Tables(database, new_id())

    def ask() -> list[Finding]:
        try:
            rows = tables.find("find_outbox_parked", count=1)
        finally:
            database.close()  # the next look may be another replica's
        return [replace(one, subject=f"{one.subject} in {name}") for one in rows]

    return ask
