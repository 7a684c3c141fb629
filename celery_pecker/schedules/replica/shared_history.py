"""One history for all schedulers of a process."""

from __future__ import annotations

from celery_pecker.schedules.history import HistoryWriter


class SharedHistory:
    """One writer for all schedulers of a process: it writes when none has work."""

    def __init__(self, writer: HistoryWriter, others: list[SharedHistory]) -> None:
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

    def for_scheduler(self) -> SharedHistory:
        """Return the face of the same writer for another scheduler."""
        return SharedHistory(self._writer, self._all)
