"""Reports in memory until they are written: pages that fill, bounded throughout.

``note`` may be called a thousand times in a wake-up, from any thread: it appends to a
list and returns. The rest happens in ``flush``, on the thread that writes: reports are
put on their pages, and the pages that changed are written whole, the longest unwritten
first. Writing a page again changes nothing, so an answer that did not come does no
harm.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterable

from celery_pecker.clock import from_us
from celery_pecker.database import Database
from celery_pecker.history.page import SLOTS, Page
from celery_pecker.history.report import Report

WAITING = 50_000
"""Reports not yet on a page, at most."""
PRUNED = 60_000
"""Slots read at once to find which are old: 100 ms of the server's time."""
FILLED = 2_000
"""Full pages not yet written, at most: 33 minutes of an entry each."""


class Recorder:
    """What one process life reports; ``keep`` slots of each entry stay in the table."""

    def __init__(self, holder: uuid.UUID, keep: int) -> None:
        self.holder = holder
        self.dropped = 0
        """Reports that nobody will read: they came faster than they went."""
        self._keep = keep
        self._waiting: deque[tuple[str, int, int, int, int, int]] = deque()
        self._open: dict[str, Page] = {}
        self._changed: dict[str, Page] = {}
        """By name, in the order in which they changed after their last writing."""
        self._filled: deque[Page] = deque()
        self._crowded: dict[str, None] = {}
        """Entries whose old pages are to be removed."""
        self._begun: dict[str, int] = {}
        """Pages begun since those of the entry were removed."""
        self._spare = max(keep // SLOTS // 10, 1)
        """Pages that may be too many: looking for them reads all that is kept."""

    def note(  # a report has six parts
        self, name: str, due_us: int, era: int, epoch: int, at_us: int, report: Report
    ) -> None:
        """Remember a report of a slot; never waits, never fails."""
        if not self._keep:
            return
        if len(self._waiting) >= WAITING:
            self.dropped += 1
            return
        # A plain number: a tuple with an enum in it stays a matter of the garbage
        # collector, and tens of thousands made each wake-up 1 ms longer.
        self._waiting.append((name, due_us, era, epoch, at_us, report.real))

    def pending(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._waiting or self._changed or self._filled or self._crowded)

    def flush(self, database: Database, *, rows: int) -> int:
        """Write up to so many pages; return how many. On one thread at a time."""
        self._sort()
        pages = self._next(rows)
        if pages:
            self._write(database, pages)
        if self._crowded:
            self._prune(database, max(rows // 5, 1))
        return len(pages)

    def _sort(self) -> None:
        """Put reports on their pages."""
        for _ in range(len(self._waiting)):
            name, due_us, era, epoch, at_us, report = self._waiting.popleft()
            page = self._open.get(name)
            if page is not None and era < page.era:
                # From before the clock stepped back: that page is full.
                self.dropped += 1
                continue
            if page is None or page.full or era != page.era:
                page = self._turn(name, era, due_us, page)
            page.add(due_us, epoch, at_us, report)
            self._changed.setdefault(name, page)

    def _turn(self, name: str, era: int, due_us: int, old: Page | None) -> Page:
        """Begin another page of an entry."""
        first_us = due_us
        if old is not None:
            if self._changed.pop(name, None) is not None:
                self._filled.append(old)
                if len(self._filled) > FILLED:
                    self.dropped += len(self._filled.popleft().due)
            if era == old.era:
                # A late word on an old slot must not take an old page's place.
                first_us = max(due_us, old.first_us + 1)
        page = self._open[name] = Page(name, era, first_us)
        begun = self._begun.get(name, self._spare) + 1
        self._begun[name] = begun
        if begun >= self._spare:
            self._crowded[name] = None
        return page

    def _next(self, rows: int) -> list[Page]:
        pages = [*self._filled][:rows]
        for page in self._changed.values():
            if len(pages) >= rows:
                break
            pages.append(page)
        return pages

    def _write(self, database: Database, pages: list[Page]) -> None:
        database.change(
            "write_history",
            now=None,
            holder=self.holder,
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

    def _prune(self, database: Database, rows: int) -> None:
        names = [*self._crowded][: max(min(rows, PRUNED // self._keep), 1)]
        database.change("prune_history", names=names, keep=self._keep)
        for name in names:
            del self._crowded[name]
            self._begun[name] = 0


def _text(numbers: Iterable[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"
