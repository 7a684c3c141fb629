"""What became of slots, until the history, the table and the log have it.

Misses and confirmations are written at once, chunk by chunk: an unconfirmed slot is
sent again by others, and a miss that is not written is forgotten with the process.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from itertools import islice

from celery_pecker import signals
from celery_pecker.kernel.lease import SECOND
from celery_pecker.schedules.engine.model import ClaimedSlot, ClaimRequest, Slot
from celery_pecker.schedules.engine.publishing import NONE, Errors
from celery_pecker.schedules.engine.repository import CHUNK, Repository
from celery_pecker.schedules.engine.timekeeper import Timekeeper
from celery_pecker.schedules.history.report import Historian, NoHistory, Report

logger = logging.getLogger("celery_pecker.beat")


@dataclass
class PendingWrites:
    """What one replica has still to report and to write of its slots."""

    repository: Repository
    timekeeper: Timekeeper
    history: InitVar[Historian | None] = None
    won: int = 0
    """Slots that claims have won since the start."""
    refused: int = 0
    """Slots that were given up before they were sent, since the start."""
    _held: dict[str, int] = field(default_factory=dict)
    """Slots that a gate holds back, each reported once."""
    _reports: list[tuple[Sequence[Slot], Report, Errors]] = field(default_factory=list)
    _missed: Counter[str] = field(default_factory=Counter)
    _confirmed: list[tuple[str, int]] = field(default_factory=list)
    _rested: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self, history: Historian | None) -> None:
        self._history = history or NoHistory()

    @property
    def missed(self) -> int:
        """How many missed slots are not written to the table yet."""
        return self._missed.total()

    def note(
        self, slots: Sequence[Slot], report: Report, errors: Errors = NONE
    ) -> None:
        """Keep a report of slots for the history; `errors` are those of entries."""
        self._reports.append((slots, report, errors))

    def count_missed(self, names: Iterable[str] | Mapping[str, int]) -> None:
        """Count slots of these entries that have no run."""
        self._missed.update(names)

    def sent(self, slots: Sequence[Slot]) -> None:
        """Note that the broker has these.

        A run that was asked for and has a deadline rests as a row until then.
        """
        self.note(slots, Report.PUBLISHED)
        for slot in slots:
            if slot.kept:
                rests = slot.asked and slot.ends_us is not None
                done = self._rested if rests else self._confirmed
                done.append((slot.entry.name, slot.epoch))

    def confirm(self, slots: Sequence[Slot]) -> None:
        """Confirm these: no replica sends them again."""
        self._confirmed += [(s.entry.name, s.epoch) for s in slots if s.kept]

    def report(self) -> None:
        """Hand on what became of slots: a thousand take a millisecond."""
        reports, self._reports = self._reports, []
        at_us, note = self.timekeeper.now_us(), self._history.note
        for slots, report, errors in reports:
            for slot in slots:
                name = slot.entry.name
                error = errors.get(name, "")
                note(name, slot.due_us, slot.era, slot.epoch, at_us, report, error)

    def held(self, name: str, slot: tuple[int, int], now_us: int) -> None:
        """Report once that a gate holds back a slot, as (due_us, era)."""
        due_us, era = slot
        if self._held.get(name) != due_us:
            self._held[name] = due_us
            self._history.note(name, due_us, era, 0, now_us, Report.HELD)

    def idle(self, until: float) -> None:
        """Allow what may wait: nothing is due before that moment."""
        self._history.allow(until)

    def write(self) -> None:
        """Write what the table is to have; what could not be written is kept."""
        while self._missed:
            some = dict(islice(self._missed.items(), CHUNK))
            self.repository.count_missed(some)
            for name in some:
                del self._missed[name]
        for sent, rests in ((self._rested, True), (self._confirmed, False)):
            while sent:
                self.repository.confirm(sent[:CHUNK], rests=rests)
                del sent[:CHUNK]

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
        self.won += len(won)
        now, at_us = self.timekeeper.now(), self.timekeeper.at_us
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
