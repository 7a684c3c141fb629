"""When stored schedules that are no grid were due next, for alarms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from celery import Celery

from celery_pecker.alarms.tables import StoredSlot
from celery_pecker.kernel import user_code
from celery_pecker.kernel.clock import from_us, to_us
from celery_pecker.recurrence import RETRY
from celery_pecker.schedules.bounds import following
from celery_pecker.schedules.model import NEVER_US, StoredSchedule
from celery_pecker.schedules.stored_rows import StoredRows
from celery_pecker.stored_schedules.timings import Timings

READ_AT_ONCE = 200
"""Definitions that one look reads: a millisecond each, until they run or change."""
SECOND = 1_000_000
REMEMBERED = 3_600.0
"""Seconds, and at most twice as many, for which an unused instant is kept."""


class StoredInstants:
    """The first slots after the last ones, worked out once for each last slot."""

    def __init__(self, app: Celery, rows: StoredRows) -> None:
        self._timings = Timings(app)
        self._rows = rows
        self._known: dict[str, tuple[StoredSlot, int]] = {}
        self._before = self._known
        """Those of the hour before: what is not asked for in this one goes with it."""
        self._since = datetime.min.replace(tzinfo=UTC)

    @property
    def known(self) -> int:
        """How many entries it remembers."""
        return len({**self._before, **self._known})

    def __call__(
        self, slots: Sequence[StoredSlot], now: datetime
    ) -> Mapping[str, datetime]:
        """Return the first slot after the last one, by entry, where it is known."""
        if abs((now - self._since).total_seconds()) > REMEMBERED:
            self._before, self._known, self._since = self._known, {}, now
        new = [slot for slot in slots if self._of(slot) is None][:READ_AT_ONCE]
        if new:
            page, _ = self._rows.read_schedules([slot.name for slot in new])
            rows = {row.name: row for row in page.rows}
            for slot in new:
                row = rows.get(slot.name)
                if row is not None and row.version == slot.version:
                    self._work_out(slot, row, to_us(now))
        instants = {slot.name: self._of(slot) for slot in slots}
        return {
            name: from_us(due_us)
            for name, due_us in instants.items()
            if due_us is not None and due_us < NEVER_US
        }

    def _of(self, slot: StoredSlot) -> int | None:
        known = self._known.get(slot.name) or self._before.get(slot.name)
        if known is None or known[0] != slot:
            return None
        self._known[slot.name] = known
        return known[1]

    def _work_out(self, slot: StoredSlot, row: StoredSchedule, now_us: int) -> None:
        due_us, error = user_code.tried(self._due, slot, row, now_us)
        if error is not None or due_us is None:  # it is parked, and counted there
            due_us = NEVER_US
        # A schedule that raises answers with a moment at which it is to be asked again.
        if due_us != max(slot.executed_us, now_us) + int(RETRY * SECOND):
            self._known[slot.name] = slot, due_us

    def _due(self, slot: StoredSlot, row: StoredSchedule, now_us: int) -> int:
        with user_code.no_exit(f"stored schedule {row.name!r}"):
            recurs = self._timings.of_row(row).recurrence
            if recurs is None or recurs.is_polled:
                return NEVER_US
            after = following(recurs, slot.executed_us, now_us)
            return after(slot.executed_us)
