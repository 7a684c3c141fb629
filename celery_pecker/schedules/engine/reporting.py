"""What a replica says of what it did: to the log, to listeners, to the history."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from celery_pecker import signals
from celery_pecker.kernel.lease import SECOND
from celery_pecker.schedules.engine.agenda import Agenda
from celery_pecker.schedules.engine.model import ClaimedSlot, ClaimRequest
from celery_pecker.schedules.engine.pending_writes import PendingWrites
from celery_pecker.schedules.engine.timekeeper import Timekeeper
from celery_pecker.schedules.history import Historian, Report

logger = logging.getLogger("celery_pecker.beat")


class Reporting:
    """Tells when nothing waits between claim and publish."""

    def __init__(
        self,
        agenda: Agenda,
        pending: PendingWrites,
        timekeeper: Timekeeper,
        history: Historian,
    ) -> None:
        self._agenda = agenda
        self._pending = pending
        self._timekeeper = timekeeper
        self._history = history
        self._held: dict[str, int] = {}
        """Slots that a gate holds back, each reported once."""

    def ready(self, holder: object) -> None:
        """Announce that tables and broker are there."""
        logger.info("pecker: ready, %d entries, holder %s", len(self._agenda), holder)

    def report_slots(self) -> None:
        """Hand on what became of slots: a thousand take a millisecond."""
        at_us, note = self._timekeeper.now_us(), self._history.note
        for slots, report, errors in self._pending.take_reports():
            for slot in slots:
                name = slot.entry.name
                error = errors.get(name, "")
                note(name, slot.due_us, slot.era, slot.epoch, at_us, report, error)

    def held(self, name: str, now_us: int) -> None:
        """Report once that a gate holds a slot back."""
        due_us, era = self._agenda.following(name, now_us)
        if self._held.get(name) != due_us:
            self._held[name] = due_us
            self._history.note(name, due_us, era, 0, now_us, Report.HELD)

    def idle(self, until: float) -> None:
        """Allow what may wait: nothing is due before that moment."""
        self._history.allow(until)

    def woke(
        self,
        due: int,
        wanted: Sequence[ClaimRequest],
        won: Sequence[ClaimedSlot],
        outcome: tuple[int, int],
        moments: tuple[float, float],
    ) -> None:
        """Report one claim: (published, missed), and when it was (sent, answered).

        The log record has what was claimed as its ``wanted``, for filters that drop the
        lines of some entries.
        """
        (published, missed), (sent, claimed) = outcome, moments
        now, at_us = self._timekeeper.now(), self._timekeeper.at_us
        first_us = min((win.due_us for win in won), default=None)
        late_us = 0 if first_us is None else max(at_us(now) - first_us, 0)
        woke = signals.Woke(
            due=due,
            won=len(won),
            published=published,
            missed=sum(win.passed for win in won) + missed,
            claim_seconds=claimed - sent,
            publish_seconds=now - claimed,
            lateness_seconds=late_us / SECOND,
        )
        logger.info(
            "pecker: woke, due=%d won=%d published=%d missed=%d"
            " claim=%.1fms publish=%.1fms late=%.1fms",
            woke.due,
            woke.won,
            woke.published,
            woke.missed,
            woke.claim_seconds * 1e3,
            woke.publish_seconds * 1e3,
            woke.lateness_seconds * 1e3,
            extra={"wanted": wanted},
        )
        signals.woke.send(woke)
