"""Samples that the store has not confirmed: pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from throttle.model import NOTHING, STALE, Amount, ExchangeAnswer, Sample, Seen
from throttle.store.wire import KEPT, REPORT_SPAN, covered


class Snapshot(NamedTuple):
    """The last answer, and how old it is."""

    answer: ExchangeAnswer | None = None
    """None: there was none yet."""
    at: float = 0.0
    """When it was asked for, on the monotonic clock: before it was sent, so that
    nothing in the answer is older than we think."""
    away: bool = True
    """Whether the last try failed. An answer that came before stays good until it is
    stale."""

    def fresh(self, now: float) -> bool:
        """Return whether the answer may be acted upon at that moment."""
        return self.answer is not None and now - self.at <= STALE

    def seen(self, database: str) -> Seen | None:
        """Return what was last heard of the database, however old."""
        return None if self.answer is None else self.answer.databases.get(database)


class Counted(NamedTuple):
    """What was counted of a database by the end of a tick."""

    ended: float
    database: str
    amount: Amount
    span: float

    def sample(self, now: float) -> Sample:
        """Return it as a report has it."""
        return Sample(max(now - self.ended, 0.0), self.amount, self.span)


class HeldBatch(NamedTuple):
    """What goes into one report."""

    number: int
    """0: there are no samples."""
    samples: Mapping[str, tuple[Sample, ...]]


class Backlog:
    """Counts in the order they came; those last sent stay together until confirmed.

    If the answer to a report is lost it is not known whether it counted. So the very
    same counts are resent under the same number, and newer ones wait for the next: the
    store skips a number that it knows. What is more than a report may cover waits, too.
    """

    def __init__(self) -> None:
        self._waiting: deque[Counted] = deque()
        self._sent: deque[Counted] = deque()
        self._number = 0
        self.dropped = 0.0
        """Operations that grew too old before the store confirmed them."""

    def __len__(self) -> int:
        return len(self._sent) + len(self._waiting)

    def add(self, ended: float, span: float, databases: Mapping[str, Amount]) -> None:
        """Keep what was counted in the `span` seconds before, for a report.

        What is older than the windows of the store is dropped.
        """
        self._waiting.extend(
            Counted(ended, name, amount, span)
            for name, amount in databases.items()
            if amount != NOTHING
        )
        for counts in (self._sent, self._waiting):
            while counts and ended - counts[0].ended > KEPT:
                self.dropped += counts.popleft().amount.operations

    def batch(self, now: float) -> HeldBatch:
        """Return what to send: what was sent and not confirmed, else the rest."""
        if not self._sent:
            if not self._waiting:
                return HeldBatch(0, {})
            room = REPORT_SPAN
            while self._waiting:
                room -= covered(self._waiting[0].span)
                if room < 0:
                    break
                self._sent.append(self._waiting.popleft())
            self._number += 1
        samples: dict[str, list[Sample]] = {}
        for counted in self._sent:
            samples.setdefault(counted.database, []).append(counted.sample(now))
        return HeldBatch(self._number, {name: tuple(s) for name, s in samples.items()})

    def confirm(self) -> None:
        """Forget what was sent last: it has been counted."""
        self._sent.clear()
