"""Decide when a relay vacuums its table. Pure.

Autovacuum looks at a database once a minute (``autovacuum_naptime``). What is deleted
meanwhile is not reused: at 16,000 messages a second the table had 936 MB before it
looked once. So a relay that deletes very many rows asks for a vacuum itself.
"""

from __future__ import annotations

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
