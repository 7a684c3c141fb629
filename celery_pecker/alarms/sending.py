"""Sends notices at least once, also when a sender dies.

A notice is a row until its target has it. A replica claims it for a time, under an
epoch; when that time has passed another replica claims it. A notice whose sender died
before it could record the sending is sent twice, under the same id.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from celery_pecker.alarms.model import Notice
from celery_pecker.alarms.tables import Tables
from celery_pecker.alarms.targets import NotSent, Target
from celery_pecker.kernel import user_code
from celery_pecker.kernel.clock import SYSTEM, Clock

logger = logging.getLogger("celery_pecker.alarms")


class Call:
    """One call of a target. The thread is a daemon: it holds up no shutdown."""

    def __init__(self, target: Target, notice: Notice) -> None:
        self.notice = notice
        self._target = target
        self._error: BaseException | None = None
        self._ended = threading.Event()

    def run(self, timeout: float) -> Exception | None:
        """Call it; return what it raised, or that it has not returned in time."""
        name = f"pecker-alarms-{self.notice.target}"
        threading.Thread(target=self._run, name=name, daemon=True).start()
        if not self._ended.wait(timeout):
            message = f"it did not return within {timeout:g} s"
            return NotSent(message)
        return self.error

    @property
    def ended(self) -> bool:
        """Whether the target has returned."""
        return self._ended.is_set()

    @property
    def error(self) -> Exception | None:
        """What it raised; what ends threads or processes as the text of an error."""
        if self._error is None or isinstance(self._error, Exception):
            return self._error
        return NotSent(f"it raised {self._error!r}")

    def _run(self) -> None:
        self._error = user_code.raised(self._target, self.notice)
        self._ended.set()


AT_ONCE = 20
HOLD = 60.0
"""Seconds for which a claimed notice belongs to its sender. A call begins in the first
half of them and is given up after the other, so no two senders call at a time."""
FIRST_REST, LONGEST_REST = 5.0, 300.0
"""Seconds that a target which fails is left alone: doubled each time."""
LONGEST_ERROR = 500


class Sending:
    """Sends what waits, on the thread of its caller."""

    def __init__(
        self,
        tables: Tables,
        targets: Mapping[str, Target],
        *,
        hold: float | None = None,
        timeout: float | None = None,
        clock: Clock = SYSTEM,
    ) -> None:
        self._tables = tables
        self._targets = targets
        self._hold = HOLD if hold is None else hold
        self._timeout = self._hold / 2 if timeout is None else timeout
        self._clock = clock
        self._late: dict[str, Call] = {}
        """Calls that were given up and have not returned, by target."""
        self._unsent: list[Notice] = []
        """What was sent, and the database did not take it down."""

    def step(self) -> int:
        """Send some; return how many were taken."""
        self._catch_up()
        free = [name for name in self._targets if name not in self._late]
        began = self._clock.monotonic()
        taken = self._tables.take(free, hold=self._hold, most=AT_ONCE)
        failed: set[str] = set()
        for notice in taken:
            if notice.target in failed:
                continue  # it rests, and its notices were freed with it
            if self._clock.monotonic() - began > self._hold - self._timeout:
                break  # others may take the rest before this one has sent it
            call = Call(self._targets[notice.target], notice)
            error = call.run(self._timeout)
            if error is None:
                self._sent(notice)
                continue
            if not call.ended:
                self._late[notice.target] = call
            failed.add(notice.target)
            text = _line(error)
            self._tables.failed(notice, text, first=FIRST_REST, most=LONGEST_REST)
            logger.warning(
                "pecker: target %s did not take a notice, tried again: %s",
                notice.target,
                text,
            )
        return len(taken)

    def _sent(self, notice: Notice) -> None:
        self._unsent.append(notice)
        self._tables.sent(notice)
        self._unsent.remove(notice)

    def _catch_up(self) -> None:
        """Close what was sent while the database was away, and what returned late."""
        for notice in [*self._unsent]:
            self._tables.sent(notice)
            self._unsent.remove(notice)
        for name, call in [*self._late.items()]:
            if call.ended:
                del self._late[name]
                if call.error is None:
                    self._sent(call.notice)


def _line(error: Exception) -> str:
    """Return an error on one line, cut, as PostgreSQL can store it."""
    return " ".join(user_code.shown(error).split())[:LONGEST_ERROR]
