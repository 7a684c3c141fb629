"""What became of slots, until the history and the table have it.

Misses and confirmations are written at once, chunk by chunk: an unconfirmed slot is
sent again by others, and a miss that is not written is forgotten with the process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from celery_pecker.schedules.engine.model import Slot
from celery_pecker.schedules.engine.publishing import NONE, Errors
from celery_pecker.schedules.engine.repository import CHUNK, Repository
from celery_pecker.schedules.history import Report


class PendingWrites:
    """What one replica has still to report and to write of its slots."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._reports: list[tuple[Sequence[Slot], Report, Errors]] = []
        self._missed: Counter[str] = Counter()
        self._confirmed: list[tuple[str, int]] = []
        self._rested: list[tuple[str, int]] = []

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

    def take_reports(self) -> list[tuple[Sequence[Slot], Report, Errors]]:
        """Return the reports that were not taken yet."""
        reports, self._reports = self._reports, []
        return reports

    def write(self) -> None:
        """Write what the table is to have; what could not be written is kept."""
        while self._missed:
            some = dict(islice(self._missed.items(), CHUNK))
            self._repository.count_missed(some)
            for name in some:
                del self._missed[name]
        while self._rested:
            self._repository.rest(self._rested[:CHUNK])
            del self._rested[:CHUNK]
        while self._confirmed:
            self._repository.confirm(self._confirmed[:CHUNK])
            del self._confirmed[:CHUNK]
