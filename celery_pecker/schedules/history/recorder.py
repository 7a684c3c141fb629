"""Reports in memory until they are written: pages that fill, bounded throughout.

``note`` may be called a thousand times in a wake-up, from any thread: it appends to a
list and returns. The rest happens in ``flush``, on the thread that writes: reports are
put on their pages, and the pages that changed are written whole, the longest unwritten
first. Writing a page again changes nothing, so an answer that did not come does no
harm. Beside the pages stands one row for each entry with counts (outcomes.py): bad
news is written at once, good news of an entry at most every `CALM` seconds.

A page holds up to 60 slots of one entry, as one row of the table.
"""

from __future__ import annotations

import uuid
from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice

from celery_pecker.kernel.clock import from_us
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.figures import (
    LATE,
    OUTCOME,
    RUN,
    WAIT,
    Figures,
    Spent,
    bucket,
)
from celery_pecker.schedules.history.life import LEFT, Life
from celery_pecker.schedules.history.outcomes import (
    COUNTED,
    Bad,
    OutcomeCounts,
    Slot,
    kept,
)
from celery_pecker.schedules.history.report import Report

SLOTS = 60
"""Slots on a page: a minute of a per-second entry."""
REPORTS = 120
"""Reports on a page, where its slots have several each."""


@dataclass(slots=True)
class ReportPage:
    """Reports of one entry in one era; arrays, because thousands of pages are open."""

    name: str
    era: int
    first_us: int
    """Names the page together with name and era."""
    last_us: int
    due: array[int] = field(default_factory=partial(array, "q"))
    epoch: array[int] = field(default_factory=partial(array, "q"))
    at: array[int] = field(default_factory=partial(array, "q"))
    report: array[int] = field(default_factory=partial(array, "h"))
    slots: int = 0

    @property
    def full(self) -> bool:
        """Whether the next slot needs another page."""
        return self.slots >= SLOTS or len(self.due) >= REPORTS

    def add(self, due_us: int, epoch: int, at_us: int, report: int) -> None:
        """Put a report at the end."""
        if due_us not in self.due[-3:]:
            self.slots += 1
        self.last_us = max(self.last_us, due_us)
        self.due.append(due_us)
        self.epoch.append(epoch)
        self.at.append(at_us)
        self.report.append(report)


_Noted = tuple[str, int, int, int, int, int, str, Spent | None]
WAITING = 50_000
"""Reports not yet on a page, at most."""
PRUNED = 60_000
"""Slots read at once to find which are old: 100 ms of the server's time."""
FILLED = 2_000
"""Full pages not yet written, at most: 33 minutes of an entry each."""
CALM = 20.0
"""Seconds between two writings of an entry's counts while all is well."""
MOST_COUNTED = 20_000
"""Entries whose counts are not yet written, at most."""


class Recorder:
    """What one process life reports; ``keep`` slots of each entry stay in the table."""

    def __init__(
        self, holder: uuid.UUID, keep: int, *, host: str | None = None
    ) -> None:
        self.holder = holder
        self.host = host
        """The worker that reports; None for a scheduler: pecker_replicas names it."""
        self.dropped = 0
        """Reports that were dropped: they came faster than they could be written."""
        self._keep = keep
        self._waiting: deque[_Noted] = deque()
        self._open: dict[str, ReportPage] = {}
        self._changed: dict[str, ReportPage] = {}
        """By name, in the order in which they changed after their last writing."""
        self._filled: deque[ReportPage] = deque()
        self._crowded: dict[str, None] = {}
        """Entries whose old pages are to be removed."""
        self._begun: dict[str, int] = {}
        """Pages begun since those of the entry were removed."""
        self._spare = max(keep // SLOTS // 10, 1)
        """Pages that may be too many: looking for them reads all that is kept."""
        self._counts: dict[str, OutcomeCounts] = {}
        """By name, the longest unwritten first."""
        self._counted_at: dict[str, float] = {}
        """When counts of an entry were last written, by the monotonic clock."""
        self.figures = Figures()
        self.life = Life(holder, host)
        """The runs that this process has in hand."""

    def note(  # noqa: PLR0913, PLR0917  # the parts of a report
        self,
        name: str,
        due_us: int,
        era: int,
        epoch: int,
        at_us: int,
        report: Report,
        error: str = "",
        spent: Spent | None = None,
    ) -> None:
        """Keep a report of a slot in memory; never wait, never fail."""
        if not self._keep:
            return
        if len(self._waiting) >= WAITING:
            self.dropped += 1
            return
        # A plain number: a tuple with an enum in it stays a matter of the garbage
        # collector, and tens of thousands made each wake-up 1 ms longer.
        one = (name, due_us, era, epoch, at_us, report.real, error, spent)
        self._waiting.append(one)

    def leave(self, name: str, due_us: int, era: int) -> None:
        """Remove a run that was reported as running from those in hand; never wait.

        Not dropped where reports are: the run would count as in hand for good.
        """
        if len(self._waiting) < 2 * WAITING:
            self._waiting.append((name, due_us, era, 0, 0, LEFT, "", None))

    def renew(self, database: Database, now: float) -> None:
        """Renew the row of runs in hand, if that is due. On the thread that writes."""
        at_us, falsely_lost = self.life.renew(database, now)
        for (name, era, due_us), epoch in falsely_lost.items():
            self.note(name, due_us, era, epoch, at_us, Report.RUNNING)

    def pending(self) -> bool:
        """Return whether there is anything to write."""
        return bool(
            self._waiting
            or self._changed
            or self._filled
            or self._crowded
            or self._counts
        )

    def flush(self, database: Database, *, rows: int, now: float | None = None) -> int:
        """Write up to so many pages; return how many. On one thread at a time.

        ``now``: a moment of the monotonic clock; None writes all counts, calm or not.
        """
        self._sort()
        pages = [*islice(chain(self._filled, self._changed.values()), rows)]
        if pages:
            self._write(database, pages)
        if self._counts:
            self._count(database, self._ready(rows * 5, now), now)
        if self._crowded:
            self._prune(database, max(rows // 5, 1))
        return len(pages)

    def _sort(self) -> None:
        """Put reports on their pages."""
        for _ in range(len(self._waiting)):
            one = self._waiting.popleft()
            name, due_us, era, epoch, at_us, report, error, spent = one
            self.life.note(name, era, due_us, epoch, report)
            if report == LEFT:
                continue
            self._figure(name, due_us, at_us, report, spent)
            # A requested run that no replica claimed has no epoch, and no slot.
            if epoch and kept(report):
                self._add(name, (era, due_us), at_us, report, error)
            page = self._open.get(name)
            if page is not None and era < page.era:
                # From before the clock stepped back: that page is full.
                self.dropped += 1
                continue
            if page is None or page.full or era != page.era:
                page = self._turn(name, era, due_us, page)
            page.add(due_us, epoch, at_us, report)
            self._changed.setdefault(name, page)

    def _figure(
        self, name: str, due_us: int, at_us: int, report: int, spent: Spent | None
    ) -> None:
        """Count it for charts."""
        subject, add = f"entry {name}", self.figures.add
        if report in COUNTED:
            add(subject, at_us, f"{OUTCOME}{report}")
        if report == Report.PUBLISHED:
            add(subject, at_us, f"{LATE}{bucket(at_us - due_us)}")
        if spent is not None:
            add(subject, at_us, f"{RUN}{bucket(spent.run_us)}")
            if spent.wait_us is not None:
                add(subject, at_us, f"{WAIT}{bucket(spent.wait_us)}")

    def _add(self, name: str, slot: Slot, at_us: int, report: int, error: str) -> None:
        """Count what became of a run."""
        known = self._counts.get(name)
        if known is None:
            if len(self._counts) >= MOST_COUNTED:
                self.dropped += 1
                return
            known = self._counts[name] = OutcomeCounts()
        known.add(slot, at_us, report, error)

    def _turn(
        self, name: str, era: int, due_us: int, old: ReportPage | None
    ) -> ReportPage:
        """Begin another page of an entry."""
        first_us = due_us
        if old is not None:
            if self._changed.pop(name, None) is not None:
                self._filled.append(old)
                if len(self._filled) > FILLED:
                    self.dropped += len(self._filled.popleft().due)
            if era == old.era:
                # A late report on an old slot must not take an old page's place.
                first_us = max(due_us, old.first_us + 1)
        page = self._open[name] = ReportPage(name, era, first_us, first_us)
        begun = self._begun.get(name, self._spare) + 1
        self._begun[name] = begun
        if begun >= self._spare:
            self._crowded[name] = None
        return page

    def _write(self, database: Database, pages: list[ReportPage]) -> None:
        database.change(
            "write_history",
            holder=self.holder,
            host=self.host,
            names=[page.name for page in pages],
            eras=[page.era for page in pages],
            firsts=[from_us(page.first_us) for page in pages],
            lasts=[from_us(page.last_us) for page in pages],
            # As text: arrays of arrays must be of one length in PostgreSQL.
            dues=[_text(page.due) for page in pages],
            epochs=[_text(page.epoch) for page in pages],
            ats=[_text(page.at) for page in pages],
            reports=[_text(page.report) for page in pages],
        )
        for page in pages:
            if self._filled and self._filled[0] is page:
                self._filled.popleft()
            else:
                del self._changed[page.name]

    def _ready(self, rows: int, now: float | None) -> list[tuple[str, OutcomeCounts]]:
        """Return the counts that are to be written, in the order of names."""
        ready = (
            (name, outcomes)
            for name, outcomes in self._counts.items()
            if now is None
            or outcomes.urgent
            or now - self._counted_at.get(name, float("-inf")) >= CALM
        )
        return [*islice(ready, rows)]

    def _count(
        self,
        database: Database,
        ready: list[tuple[str, OutcomeCounts]],
        now: float | None,
    ) -> None:
        if not ready:
            return
        all_of_them = [outcomes for _, outcomes in ready]
        database.change(
            "count_outcomes",
            host=self.host,
            names=[name for name, _ in ready],
            counts=[_text(one.counts) for one in all_of_them],
            **_slots("good", [one.good for one in all_of_them]),
            **_slots("sent", [one.sent for one in all_of_them]),
            **_slots("reported", [one.reported for one in all_of_them]),
            **_ends("bad", [one.bad for one in all_of_them]),
            **_ends("unsent", [one.unsent for one in all_of_them]),
        )
        for name, outcomes in ready:
            del self._counts[name]
            if outcomes.urgent:  # that it is well by now is news, too
                self._counted_at.pop(name, None)
            elif now is not None:
                self._counted_at[name] = now
        # Most of them are of entries that are gone.
        if len(self._counted_at) > MOST_COUNTED:
            self._counted_at.clear()

    def _prune(self, database: Database, rows: int) -> None:
        names = [*self._crowded][: max(min(rows, PRUNED // self._keep), 1)]
        database.change("prune_history", names=names, keep=self._keep)
        for name in names:
            del self._crowded[name]
            self._begun[name] = 0


def _slots(which: str, slots: Sequence[Slot | Bad | None]) -> dict[str, object]:
    return {
        f"{which}_eras": [one and one[0] for one in slots],
        f"{which}_dues": [one and from_us(one[1]) for one in slots],
    }


def _ends(which: str, ends: Sequence[Bad | None]) -> dict[str, object]:
    return {
        **_slots(which, ends),
        f"{which}_ats": [one and from_us(one[2]) for one in ends],
        f"{which}_reports": [one and one[3] for one in ends],
        f"{which}_errors": [one and one[4] for one in ends],
    }


def _text(numbers: Iterable[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"
