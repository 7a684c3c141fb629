"""Arithmetic of slots, and recurrences with bounds of their own. Pure.

The grid of an entry is ``anchor + k * period`` with the last slot as the anchor: there
is no drift, and another period simply counts on from the last slot. The claim does the
same in SQL.
"""

from collections.abc import Callable
from dataclasses import dataclass

from celery_pecker.schedules.engine.model import NEVER_US, Entry, Recurrence


def latest(anchor_us: int, period_us: int, now_us: int) -> int:
    """Return the last grid instant not after now (before the anchor too)."""
    return anchor_us + (now_us - anchor_us) // period_us * period_us


@dataclass(frozen=True, slots=True)
class Single:
    """One instant."""

    at_us: int
    is_polled = False

    def next(self, last_us: int, now_us: int) -> int:
        """Return the instant until it is over."""
        return self.at_us if last_us < self.at_us else NEVER_US


@dataclass(frozen=True, slots=True)
class Grid:
    """A plain interval, counted from its start, or else from the last slot."""

    period_us: int
    start_us: int | None
    is_polled = False

    def next(self, last_us: int, now_us: int) -> int:
        """Return the first slot after the last."""
        start_us = self.start_us
        if start_us is None:
            return last_us + self.period_us
        if last_us < start_us:
            return start_us
        return start_us + ((last_us - start_us) // self.period_us + 1) * self.period_us


@dataclass(frozen=True, slots=True)
class Bounded:
    """A schedule with a start and an end; both belong to it."""

    inner: Recurrence
    start_us: int | None
    end_us: int | None

    @property
    def is_polled(self) -> bool:
        """Whether it can only be asked "is it due now?"."""
        return self.inner.is_polled

    def next(self, last_us: int, now_us: int) -> int:
        """Return the first slot after the last that lies within."""
        if self.start_us is not None:
            last_us = max(last_us, self.start_us - 1)
        next_us = self.inner.next(last_us, now_us)
        if self.end_us is not None and next_us > self.end_us:
            return NEVER_US
        return next_us


def following(entry: Entry, seen_us: int, now_us: int) -> Callable[[int], int]:
    """Return what gives the first slot after an instant, be that a slot or not.

    A grid without a start counts from the last slot, which only the row knows: after an
    instant between two slots comes the next of that grid.
    """
    inner = entry.recurrence
    if isinstance(inner, Bounded):
        inner = inner.inner
    if not isinstance(inner, Grid) or inner.start_us is not None:
        return lambda last_us: entry.next(last_us, now_us)
    period_us = inner.period_us

    def on_grid(last_us: int) -> int:
        slot_us = last_us - (last_us - seen_us) % period_us
        return entry.next(slot_us, now_us)

    return on_grid
