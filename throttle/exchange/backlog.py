"""Samples that the store has not confirmed: pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from throttle.model import NOTHING, STALE, Amount, Answer, Sample, Seen


class Snapshot(NamedTuple):
    """The last answer, and how old it is."""

    answer: Answer | None = None
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


KEPT = 10.0
"""Seconds: as long as the store keeps windows. What is older would not be seen."""


class Tick(NamedTuple):
    """What was counted by the end of a tick."""

    ended: float
    span: float
    databases: Mapping[str, Amount]


class Batch(NamedTuple):
    """What goes into one report."""

    number: int
    """0: there are no samples."""
    samples: Mapping[str, tuple[Sample, ...]]


class Backlog:
    """Ticks in the order they came; those last sent stay together until confirmed.

    If the answer to a report is lost it is not known whether it counted. So the very
    same ticks are resent under the same number, and newer ones wait for the next: the
    store skips a number that it knows.
    """

    def __init__(self) -> None:
        self._waiting: deque[Tick] = deque()
        self._sent: deque[Tick] = deque()
        self._number = 0
        self.dropped = 0.0
        """Operations that grew too old before the store confirmed them."""

    def __len__(self) -> int:
        return len(self._sent) + len(self._waiting)

    def add(self, ended: float, span: float, databases: Mapping[str, Amount]) -> None:
        """Keep what was counted in the `span` seconds before, for a report.

        What is too old is dropped.
        """
        counted = {name: one for name, one in databases.items() if one != NOTHING}
        if counted:
            self._waiting.append(Tick(ended, span, counted))
        for ticks in (self._sent, self._waiting):
            while ticks and ended - ticks[0].ended > KEPT:
                lost = ticks.popleft().databases.values()
                self.dropped += sum(one.operations for one in lost)

    def batch(self, now: float) -> Batch:
        """Return what to send: what was sent and not confirmed, else the rest."""
        if not self._sent:
            if not self._waiting:
                return Batch(0, {})
            self._sent, self._waiting = self._waiting, deque()
            self._number += 1
        samples: dict[str, list[Sample]] = {}
        for tick in self._sent:
            age = max(now - tick.ended, 0.0)
            for name, amount in tick.databases.items():
                samples.setdefault(name, []).append(Sample(age, amount, tick.span))
        return Batch(self._number, {name: tuple(s) for name, s in samples.items()})

    def confirm(self) -> None:
        """Forget what was sent last: it has been counted."""
        self._sent.clear()
