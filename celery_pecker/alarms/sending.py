"""Sends notices: at least once, whoever dies.

A notice is a row until its target has it. Who takes it holds it for a time, under an
epoch; when that is over another replica takes it. One that was sent by a process
that died before it could say so is sent twice, under the same id.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from celery_pecker.alarms.tables import Tables
from celery_pecker.alarms.targets import Target
from celery_pecker.kernel import user_code

logger = logging.getLogger("celery_pecker.alarms")

AT_ONCE = 20
HOLD = 30.0
"""Seconds for which what was taken is left to who took it."""
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
    ) -> None:
        self._tables = tables
        self._targets = targets
        self._hold = HOLD if hold is None else hold

    def step(self) -> int:
        """Send some; return how many were taken."""
        taken = self._tables.take([*self._targets], hold=self._hold, most=AT_ONCE)
        failed: set[str] = set()
        for notice in taken:
            if notice.target in failed:
                continue  # it rests, and its notices were freed with it
            error = user_code.tried(self._targets[notice.target], notice)[1]
            if error is None:
                self._tables.sent(notice)
                continue
            failed.add(notice.target)
            text = _line(error)
            self._tables.failed(notice, text, first=FIRST_REST, most=LONGEST_REST)
            logger.warning(
                "pecker: target %s did not take a notice, tried again: %s",
                notice.target,
                text,
            )
        return len(taken)


def _line(error: Exception) -> str:
    """Return an error on one line, cut, as PostgreSQL can store it."""
    text = f"{type(error).__name__}: {error}".replace("\0", "")
    return " ".join(text.encode(errors="replace").decode().split())[:LONGEST_ERROR]
