"""Writes the history while the scheduler sleeps.

On a thread and a connection of its own: whatever the history table suffers (a lock, a
slow disk, a missing right), no slot waits for it. It writes in small bites, and only
while nothing is due, because the scheduler's thread shares the interpreter with it.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, InitVar, dataclass

from celery_pecker.kernel.backoff import Backoff
from celery_pecker.kernel.clock import SYSTEM, Clock
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import Misconfigured, PeckerError
from celery_pecker.kernel.figure_tables import FiguresWriter
from celery_pecker.kernel.loop import Loop
from celery_pecker.kernel.once_a_minute import OnceAMinute
from celery_pecker.schedules.history.recorder import Recorder

logger = logging.getLogger(__name__)

BITE = 50
"""Pages written at once; some milliseconds of work."""
EVERY = 0.25
"""Seconds between bites: at most 200 pages a second, for any number of entries."""
MARGIN = 0.05
"""Seconds that a bite may take: later than that before a wake-up none is begun."""
LONGEST_INTERVAL = 5.0
"""Seconds after which a bite is taken although something is always due."""
NOTHING = 60.0
CALLING_OFF = 1.0
"""Seconds spent on having the server end a bite that it did not take in time."""

_refused = OnceAMinute(logger)


@dataclass
class HistoryWriter:
    """Takes reports at any time and writes them when it is allowed to."""

    recorder: Recorder
    database: Database
    _: KW_ONLY
    clock: Clock = SYSTEM
    look: Callable[[], None] = lambda: None
    """Called on the writer's thread, each ``every`` seconds at least: it may have more
    to note."""
    every: float = NOTHING
    version: InitVar[str] = ""
    """Of the app, marked in charts."""
    _until: float = 0.0

    def __post_init__(self, version: str) -> None:
        self.note = self.recorder.note
        self.database.call_off(CALLING_OFF)
        self._wrote = self.clock.monotonic()
        self._rested = self._wrote
        """From this moment on another bite may be taken; the first one at once."""
        self._figures = FiguresWriter(
            *(self.recorder.figures, self.database, self.recorder.holder),
            clock=self.clock,
            folds=lambda: self.recorder.host is None,
            version=version,
        )
        self._loop = Loop(
            self._step,
            name="pecker-history",
            clock=self.clock,
            leave=self._leave,
            backoff=Backoff(first=EVERY, most=10.0),
        )

    def start(self) -> None:
        """Start its thread."""
        self._loop.start()

    def stop(self) -> None:
        """Write what one bite holds, and leave. Safe in a signal handler."""
        self._loop.stop()

    def join(self, timeout: float) -> bool:
        """Wait until it has left; return whether it has."""
        return self._loop.join(timeout)

    def allow(self, until: float) -> None:
        """Allow writing until that moment of the monotonic clock: nothing is due."""
        self._until = until
        if self.recorder.pending():
            self._loop.wake()

    def _step(self) -> float:
        self.look()
        rest = self._write()
        # After the ends of runs are written: a death in between loses nothing.
        return min(rest, self._renew(), self._figures.step())

    def _write(self) -> float:
        if not self.recorder.pending():
            return self.every
        now = self.clock.monotonic()
        if now < self._rested:
            return self._rested - now
        overdue = self._wrote + LONGEST_INTERVAL
        idle = now + MARGIN <= self._until or now >= overdue
        if not idle and not self._loop.failing:
            return overdue - now
        self.recorder.flush(self.database, rows=BITE, now=now)
        # After the write: a step that rests counts as a success, so that a database
        # that refuses was asked four times a second, each time with a traceback.
        self._wrote, self._rested = now, now + EVERY
        return EVERY

    def _renew(self) -> float:
        """Renew the row of the runs in hand; return seconds until the next time.

        Without rights on its table, or the table, reports are written all the same.
        """
        now = self.clock.monotonic()
        try:
            self.recorder.renew(self.database, now)
        except Misconfigured as error:
            self.recorder.life.put_off(now)
            _refused.warning(
                "lives",
                "pecker: runs of a killed process are not known as lost: %s",
                error,
            )
        return self.recorder.life.rest(now)

    def _leave(self) -> None:
        with suppress(PeckerError):  # nothing depends on it
            if self.recorder.pending():
                self.recorder.flush(self.database, rows=4 * BITE)
            self.recorder.renew(self.database, self.clock.monotonic())
        self.database.close()


class SharedHistory:
    """One writer for all schedulers of a process: it writes when none has work."""

    def __init__(self, writer: HistoryWriter, others: "list[SharedHistory]") -> None:
        self._writer = writer
        self.note = writer.note
        self._all = others
        self.until = float("inf")
        """Nothing is due before this moment, as far as is known here."""
        others.append(self)

    def allow(self, until: float) -> None:
        """Allow writing until that moment, before which nothing is due here."""
        self.until = until
        self._writer.allow(min(one.until for one in self._all))

    def for_scheduler(self) -> "SharedHistory":
        """Return the face of the same writer for another scheduler."""
        return SharedHistory(self._writer, self._all)
