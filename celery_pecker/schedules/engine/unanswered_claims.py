"""Claims whose answer did not come, and what became of them.

The server may have run the claim before the connection broke. The row tells: it names
this process life as its holder, under an epoch later than its last known win.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from celery_pecker.schedules.engine.agenda import Agenda
from celery_pecker.schedules.engine.claims import slot_of
from celery_pecker.schedules.engine.model import ClaimedSlot, Entry, Slot
from celery_pecker.schedules.engine.timekeeper import Timekeeper


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unanswered:
    entries: list[Entry]
    sent_us: int


class UnansweredClaims:
    """At most one claim is in doubt: none is made before it is resolved."""

    def __init__(
        self, agenda: Agenda, timekeeper: Timekeeper, holder: uuid.UUID
    ) -> None:
        self._agenda = agenda
        self._timekeeper = timekeeper
        self._holder = holder
        self._doubt: _Unanswered | None = None

    def note(self, entries: Sequence[Entry], sent_us: int) -> None:
        """Remember a claim of these, sent at that time, whose answer did not come."""
        self._doubt = _Unanswered(entries=[*entries], sent_us=sent_us)

    def resolve(self) -> list[Slot]:
        """Return the slots that it won, to be published if there is time left.

        They are known as won from here on: another claim without answer must not find
        the same epoch new again. A requested run raises the epoch and
        leaves the slot: that is no win.
        """
        doubt = self._doubt
        if doubt is None:
            return []
        now_us, rows = self._timekeeper.read([one.name for one in doubt.entries])
        self._doubt = None
        slots: list[Slot] = []
        for entry in doubt.entries:
            row = rows.get(entry.name)
            if row is None:
                continue
            epoch, due_us = self._agenda.last_win(entry.name)
            won = row.epoch > epoch and row.executed_us != due_us
            if row.holder == self._holder and won:
                win = ClaimedSlot(0, row.executed_us, row.epoch, row.era, 0, row.paused)
                self._agenda.won(entry.name, win, now_us)
                if not row.paused:
                    slots.append(slot_of(entry, win, doubt.sent_us))
            else:
                self._agenda.update({entry.name: row}, now_us)
        return slots
