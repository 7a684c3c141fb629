"""One history for all schedulers of a process."""

from __future__ import annotations

from celery_pecker.history import Scribe


class SharedHistory:
    """One scribe for all schedulers of a process: it writes when none has work."""

    def __init__(self, scribe: Scribe, others: list[SharedHistory]) -> None:
        self._scribe = scribe
        self.note = scribe.note
        self._all = others
        self.until = float("inf")
        """Nothing is due before this moment, as far as is known here."""
        others.append(self)

    def allow(self, until: float) -> None:
        """Allow writing until that moment, before which nothing is due here."""
        self.until = until
        self._scribe.allow(min(one.until for one in self._all))

    def another(self) -> SharedHistory:
        """Return the face of the same scribe for another scheduler."""
        return SharedHistory(self._scribe, self._all)
