"""Ask for a vacuum of a table from which very many rows were deleted."""

from __future__ import annotations

import logging
from collections.abc import Callable

from celery_pecker.kernel.clock import Clock
from celery_pecker.kernel.database import Database
from celery_pecker.outbox.model import TABLE
from celery_pecker.outbox.relay.vacuum_policy import VacuumPolicy, worth

logger = logging.getLogger("celery_pecker.outbox")

INTERVAL = 1.0
"""Seconds between two looks at what the relay has delivered."""
TIMEOUT = 600.0
"""Seconds that a vacuum may take."""


class Vacuum:
    """Vacuums one table, over a connection that it has only for so long."""

    def __init__(
        self,
        database: Database,
        delivered: Callable[[], int],
        *,
        clock: Clock,
        name: str = "default",
    ) -> None:
        self._database = database
        self._delivered = delivered
        self._clock = clock
        self._name = name
        self._policy = VacuumPolicy()
        self._warned = False

    def step(self) -> float:
        """Vacuum if it is worth it; return the seconds until the next look."""
        if self._policy.look(self._delivered(), self._clock.monotonic()):
            try:
                self._look()
            finally:
                self._database.close()
        return INTERVAL

    def _look(self) -> None:
        dead, live, allowed = self._read()
        if not worth(dead, live):
            return
        if not allowed:
            if not self._warned:
                logger.warning(
                    "pecker: outbox %s: %d rows of pecker_outbox are dead, and this"
                    " role may not VACUUM it: make it a member of the table's owner,"
                    " grant MAINTAIN (from PostgreSQL 17 on), or lower"
                    " autovacuum_naptime",
                    self._name,
                    dead,
                )
            self._warned = True
            return
        self._database.run("vacuum_outbox")
        after, _, _ = self._read()
        self._policy.vacuumed(
            before=dead, after=after, monotonic=self._clock.monotonic()
        )

    def _read(self) -> tuple[int, int, bool]:
        rows = self._database.run(
            "read_outbox_space", schema=self._database.schema, table=TABLE
        )
        [(dead, live, allowed)] = rows or [(0, 0, True)]
        return int(dead), int(live), bool(allowed)
