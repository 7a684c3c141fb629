"""How hard the processing may work.

As published: each of ten threads takes a task, and rests for ten seconds when none was
due; so one of them looks about once a second.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from celery_pecker.kernel.database import Database
from celery_pecker.kernel.declared import is_number, is_whole
from celery_pecker.kernel.errors import Misconfigured

MAX_THREADS = 1_000
MAX_PAUSE = 3_600.0
MAX_ONLY = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Threads of each worker, their pauses in seconds, and what is urgent."""

    threads: int = 10
    pause_empty: float = 10.0
    pause_error: float = 30.0
    pause_done: float = 1.0
    only: tuple[str, ...] | None = None
    """Tasks that are run; None: all."""

    @classmethod
    def now(cls, database: Database) -> "Load":
        """Return how hard the processing of an outbox may work now."""
        rows = database.read(cls.of, "read_outbox_load")
        return rows[0] if rows else cls()

    @classmethod
    def of(cls, *, only: Sequence[str] | None = None, **values: Any) -> "Load":
        """Return the load; what is None is as by default.

        Raises:
            Misconfigured: a value is not allowed.
        """
        known = {key: value for key, value in values.items() if value is not None}
        load = cls(**known, only=None if only is None else tuple(only))
        load.check()
        return load

    def check(self) -> None:
        """Raise Misconfigured if a value is not allowed."""
        if not is_whole(self.threads, 0, MAX_THREADS):
            Misconfigured.refuse("threads", self.threads, f"is 0 to {MAX_THREADS}")
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.startswith("pause") and not is_number(value, 0, MAX_PAUSE):
                Misconfigured.refuse(
                    field.name, value, f"are seconds from 0 to {MAX_PAUSE:g}"
                )
        only: Sequence[object] = self.only or ()
        if len(only) > MAX_ONLY or not all(isinstance(o, str) and o for o in only):
            Misconfigured.refuse("only", self.only, f"are {MAX_ONLY} names of tasks")

    def wants(self, task: str) -> bool:
        """Return whether rows of the task are run now."""
        return self.only is None or task in self.only


class PollPace:
    """Which threads may take a row, and when the next one may.

    A thread that is busy is none of them. Threads that rest after an empty poll take
    turns: of ten with a pause of ten seconds one looks each second.
    """

    def __init__(self, load: Load, now: float) -> None:
        self._load = load
        self._resting: list[float] = []
        """When those rest no more; a heap."""
        self._busy = 0
        self._look_at = now
        self._fill(now)

    @property
    def busy(self) -> int:
        """How many threads have a row."""
        return self._busy

    def change(self, load: Load, now: float) -> None:
        """Take over another load; threads that are too many go when they are free."""
        if load != self._load:
            if (
                load.pause_empty < self._load.pause_empty
                or load.only != self._load.only
            ):
                self._look_at = now
            self._load = load
            # A shorter pause is in force at once.
            most = max(load.pause_error, load.pause_done)
            self._resting = [min(one, now + most) for one in self._resting]
            heapq.heapify(self._resting)
            self._fill(now)

    def free(self, now: float) -> int:
        """Return how many rows may be taken now."""
        if now < self._look_at:
            return 0
        return sum(one <= now for one in self._resting)

    def took(self, rows: int, asked: int, now: float) -> None:
        """Count rows that were taken, of so many that were asked for."""
        for _ in range(rows):
            heapq.heappop(self._resting)
        self._busy += rows
        if rows < asked:
            self._look_at = now + self._load.pause_empty / max(self._load.threads, 1)

    def ended(self, now: float, *, well: bool) -> None:
        """Free a thread whose row has ended, after its pause."""
        self._busy -= 1
        if self._busy + len(self._resting) < self._load.threads:
            pause = self._load.pause_done if well else self._load.pause_error
            heapq.heappush(self._resting, now + pause)

    def wait(self, now: float) -> float | None:
        """Return the seconds until rows may be taken; None: not before one ends."""
        if not self._resting:
            return None
        return max(self._resting[0], self._look_at) - now

    def _fill(self, now: float) -> None:
        missing = self._load.threads - self._busy - len(self._resting)
        for _ in range(missing):
            heapq.heappush(self._resting, now)
        for _ in range(min(-missing, len(self._resting))):
            self._resting.remove(max(self._resting))
            heapq.heapify(self._resting)
