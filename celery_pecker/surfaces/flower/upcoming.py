"""When entries are due next that are no grid: only the app's own code can say.

Flower has it, having been started with ``-A proj``. It is believed of an entry only as
far as it describes the schedule in the same words as the replicas that declare it: a
Flower with older code than theirs shows none instead of another instant.
"""

from __future__ import annotations

import logging
import threading
from functools import cached_property

from celery import Celery

from celery_pecker.kernel import user_code
from celery_pecker.schedules.declarations import BeatSchedule
from celery_pecker.schedules.engine.model import NEVER_US, Recurrence
from celery_pecker.schedules.recurrence import described, period_us, recurrence

logger = logging.getLogger(__name__)


class Upcoming:
    """The next slots of an app's entries."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._turn = threading.Lock()

    def next_us(
        self, name: str, schedule: str, *, last_us: int, now_us: int
    ) -> int | None:
        """Return the slot after the last, or None if this code cannot tell."""
        with self._turn:  # a schedule's "now" is pinned while it is asked
            known, recurs = self._schedules.get(name, ("", None))
            if recurs is None or recurs.is_polled or known != schedule:
                return None
            due_us = recurs.next(last_us, now_us)
            return due_us if due_us < NEVER_US else None

    @cached_property
    def _schedules(self) -> dict[str, tuple[str, Recurrence]]:
        none: dict[str, tuple[str, Recurrence]] = {}
        return user_code.call("reading beat_schedule for Flower", none, self._read)

    def _read(self) -> dict[str, tuple[str, Recurrence]]:
        beat_schedule = BeatSchedule(app=self._app, lazy=True)
        beat_schedule.setup_schedule()
        return {
            name: (
                described(entry.schedule),
                recurrence(entry.schedule, self._app, name),
            )
            for name, entry in beat_schedule.schedule.items()
            if period_us(entry.schedule) is None
        }
