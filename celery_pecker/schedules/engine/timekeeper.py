"""The database's time, estimated between two answers of the database."""

import logging
from collections.abc import Sequence

from celery_pecker import signals
from celery_pecker.kernel.clock import Clock
from celery_pecker.kernel.lease import ClockOffset
from celery_pecker.schedules.engine.agenda import Agenda
from celery_pecker.schedules.engine.model import Row
from celery_pecker.schedules.engine.repository import Repository

logger = logging.getLogger("celery_pecker.beat")

NOTICED = 0.1
"""Seconds: a smaller step of the clock is not logged."""


class Timekeeper:
    """Keeps the offset between the database's clock and this process's."""

    def __init__(self, clock: Clock, repository: Repository, agenda: Agenda) -> None:
        self._clock = clock
        self._repository = repository
        self._agenda = agenda
        self._offset = ClockOffset()
        self._stepped = 0.0

    def now(self) -> float:
        """Return the monotonic clock's seconds."""
        return self._clock.monotonic()

    def now_us(self) -> int:
        """Return the database's time now, never ahead of the truth.

        Safe on any thread.
        """
        return self._offset.now_us(self._clock.monotonic())

    def at_us(self, monotonic: float) -> int:
        """Return the database's time at a moment of the monotonic clock."""
        return self._offset.now_us(monotonic)

    def until(self, instant_us: int) -> float:
        """Return the moment at which the database surely shows that instant."""
        return self._offset.monotonic(instant_us)

    def before(self, instant_us: int) -> float:
        """Return a moment at which the database surely does not show it yet."""
        return self._offset.before(instant_us)

    def observe(self, instant_us: int, *, sent: float) -> None:
        """Take in an answer that came just now."""
        self._stepped += self._offset.observe(
            instant_us, sent=sent, received=self._clock.monotonic()
        )

    def handle_clock_step(self) -> None:
        """Log a step of the clock, and plan again: not between claim and publish.

        Wake-ups are in the database's time, so only a step back changes what is due;
        a small contradiction is the clock being slewed.
        """
        stepped, self._stepped = self._stepped, 0.0
        if abs(stepped) < NOTICED:
            return
        logger.warning("pecker: the database's clock stepped by %+.3f s", stepped)
        signals.clock_stepped.send(signals.ClockStepped(seconds=stepped))
        if stepped < 0:
            self._agenda.replan(self.now_us())

    def read(self, names: Sequence[str]) -> tuple[int, dict[str, Row]]:
        """Return rows and the time; what the shortest round trip bounds best."""
        sent = self._clock.monotonic()
        now_us, rows = self._repository.read(names)
        self.observe(now_us, sent=sent)
        self.handle_clock_step()
        return now_us, rows

    def refresh(self, names: Sequence[str]) -> list[str]:
        """Bring the agenda up to date with the table.

        Return entries of code for which a stored definition counts in the table.
        """
        now_us, rows = self.read(names)
        stored = self._agenda.stored
        missing = [name for name in names if name not in rows and not stored(name)]
        if missing:  # new, removed by hand, or forgotten: an entry of ours comes back
            self._repository.enroll(missing)
            now_us, missed = self.read(missing)
            rows |= missed
        self._agenda.update(rows, now_us)
        return [
            name
            for name, row in rows.items()
            if row.version is not None and not stored(name)
        ]
