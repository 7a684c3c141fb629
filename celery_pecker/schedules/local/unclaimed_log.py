"""Log why local slots are not claimed here: runs that do not end, threads all taken.

Such runs are seen nowhere else: they have no end that could be reported, and what is
left to other workers is no failure, if there are any. Logged on the scheduler's
thread, which nothing that a run does can hold up.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from celery_pecker.kernel.clock import Clock
from celery_pecker.schedules.local.prepared_entry import Order

logger = logging.getLogger("celery_pecker.schedules.local")

UNENDING = 1.0
"""Seconds after its deadline at which a run that still goes on is logged."""
SCARCE = 5.0
"""Seconds that a slot waits for a thread until that is logged."""
SELDOM = 60.0
"""Seconds until it is logged once more."""


class UnclaimedLog:
    """Logs each run once, and threads once a minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._logged: dict[str, str] = {}
        """By entry, the run that was last logged."""
        self._next_at = float("-inf")

    def of_runs(self, orders: Sequence[Order]) -> None:
        """Log runs that keep their next slots from being claimed."""
        now = self._clock.monotonic()
        for order in orders:
            over = 0.0 if order.ends is None else now - order.ends
            if over > UNENDING and self._logged.get(order.name) != order.task_id:
                self._logged[order.name] = order.task_id
                logger.warning(
                    "pecker: the local run of %s still goes on, %.1f s after its"
                    " deadline: a thread cannot be ended; its next slots are left to"
                    " other workers",
                    order.name,
                    over,
                )

    def of_threads(self, waited: float, *, running: int, waiting: int) -> None:
        """Log that a slot has waited long for a thread."""
        now = self._clock.monotonic()
        if waited > SCARCE and now >= self._next_at:
            self._next_at = now + SELDOM
            logger.warning(
                "pecker: a slot has waited %.1f s for one of the threads for local runs"
                " (%d running, %d waiting): nothing more is claimed here; see"
                " pecker_local_threads",
                waited,
                running,
                waiting,
            )
