"""Ask for a vacuum of a table from which very many rows were deleted.

Autovacuum looks at a database once a minute (``autovacuum_naptime``). What is deleted
meanwhile is not reused: at 16,000 messages a second the table had 936 MB before it
looked once. So a relay that deletes very many rows asks for a vacuum itself.
"""

import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field

from celery_pecker.kernel.clock import SYSTEM, Clock
from celery_pecker.kernel.database import Database
from celery_pecker.outbox.model import TABLE

LOOK_EVERY = 20_000
"""Messages that a relay delivers between two looks at the table."""
LEAST_DEAD = 50_000
"""Dead rows below which autovacuum is early enough."""
DEAD_SHARE = 0.2
"""Share of the live rows: a vacuum walks over the indexes of all of them."""
FIRST_WAIT, MOST_WAIT = 1.0, 300.0
"""Seconds after a vacuum that freed little: a transaction holds a snapshot."""


class VacuumPolicy:
    """Counts what was delivered since the last look; waits after vain vacuums."""

    def __init__(self) -> None:
        self._seen = 0
        self._not_before = float("-inf")
        self._wait = FIRST_WAIT

    def look(self, sent: int, monotonic: float) -> bool:
        """Return whether to look at the table: a relay has delivered so many in all."""
        if sent - self._seen < LOOK_EVERY or monotonic < self._not_before:
            return False
        self._seen = sent
        return True

    def vacuumed(self, *, before: int, after: int, monotonic: float) -> None:
        """Take in how many rows were dead before a vacuum and are after it."""
        self._wait = (
            FIRST_WAIT if after <= before / 2 else min(self._wait * 2, MOST_WAIT)
        )
        self._not_before = monotonic + self._wait


def worth(dead: int, live: int) -> bool:
    """Return whether a vacuum frees more than it costs."""
    return dead >= max(LEAST_DEAD, DEAD_SHARE * live)


logger = logging.getLogger("celery_pecker.outbox")

INTERVAL = 1.0
"""Seconds between two looks at what the relay has delivered."""
TIMEOUT = 600.0
"""Seconds that a vacuum may take."""


@dataclass
class Vacuum:
    """Vacuums one table, over a connection that it has only for so long."""

    database: Database
    delivered: Callable[[], int]
    _: KW_ONLY
    clock: Clock = SYSTEM
    name: str = "default"
    _policy: VacuumPolicy = field(default_factory=VacuumPolicy)
    _warned: bool = False

    def step(self) -> float:
        """Vacuum if it is worth it; return the seconds until the next look."""
        if self._policy.look(self.delivered(), self.clock.monotonic()):
            try:
                self._look()
            finally:
                self.database.close()
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
                    self.name,
                    dead,
                )
            self._warned = True
            return
        self.database.run("vacuum_outbox")
        after, _, _ = self._read()
        self._policy.vacuumed(
            before=dead, after=after, monotonic=self.clock.monotonic()
        )

    def _read(self) -> tuple[int, int, bool]:
        rows = self.database.run(
            "read_outbox_space", schema=self.database.schema, table=TABLE
        )
        [(dead, live, allowed)] = rows or [(0, 0, True)]
        return int(dead), int(live), bool(allowed)
