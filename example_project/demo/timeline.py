"""The demo's own record: when what was done to whom, by the database's clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from celery_pecker.kernel.clock import SYSTEM, Clock, pause, to_us
from example_project.demo.report import SECOND, Cause, Event
from example_project.store import Store


class Timeline:
    """Reads the database's clock once and carries it on by the monotonic clock.

    So that events and runs can be compared also while the database is away.
    """

    def __init__(self, store: Store, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        asked = clock.monotonic()
        ((now,),) = store.rows("database_now")
        answered = clock.monotonic()
        self._offset_us = to_us(now) - int((asked + answered) / 2 * SECOND)
        self.begun = False
        self.began_us = self.ended_us = self.now_us()
        self._done: list[Event] = []
        self._open: tuple[Cause, str, int] | None = None

    def now_us(self) -> int:
        """Return what the database's clock says now."""
        return int(self._clock.monotonic() * SECOND) + self._offset_us

    def begin(self) -> None:
        """Slots count from now on."""
        self.began_us = self.now_us()
        self.begun = True

    def end(self) -> None:
        """Slots count up to now."""
        self.ended_us = self.now_us()

    def stretch(self, seconds: float) -> tuple[int, int]:
        """Let so many seconds pass; return their two ends."""
        began_us = self.now_us()
        pause(seconds)
        return began_us, self.now_us()

    @contextmanager
    def doing(self, cause: Cause, subject: str) -> Iterator[None]:
        """The body's time is on record as done to the subject."""
        self._open = (cause, subject, self.now_us())
        try:
            yield
        finally:
            done, self._open = self.doing_now, None
            self._done.extend([done] if done else [])

    @property
    def doing_now(self) -> Event | None:
        """What is being done at this moment, as if it ended now."""
        begun = self._open
        if begun is None:
            return None
        cause, subject, began_us = begun
        return Event(
            cause=cause, subject=subject, began_us=began_us, ended_us=self.now_us()
        )

    @property
    def events(self) -> list[Event]:
        """Everything done so far."""
        now = self.doing_now
        return [*self._done, *([now] if now else [])]
