"""When entries are due next that are no grid: only the app's own code can say.

Flower has it, having been started with ``-A proj``. It is believed of an entry only as
far as it describes the schedule in the same words as the replicas that declare it: a
Flower with older code than theirs shows none instead of another instant.
"""

import threading
from functools import cached_property

from celery import Celery

from celery_pecker.kernel import user_code
from celery_pecker.schedules.declarations.beat_schedule import BeatSchedule
from celery_pecker.schedules.declarations.reading import entries
from celery_pecker.schedules.engine.model import Entry


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
            known = self._entries.get(name)
            if known is None or known.described != schedule:
                return None
            return known.after(last_us, now_us)

    @cached_property
    def _entries(self) -> dict[str, Entry]:
        none: dict[str, Entry] = {}
        return user_code.call("reading beat_schedule for Flower", none, self._read)

    def _read(self) -> dict[str, Entry]:
        declared = BeatSchedule(self._app).schedule
        made = entries(declared, self._app, conf=self._app.conf)
        return {entry.name: entry for entry in made}
