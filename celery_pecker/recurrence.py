"""Celery's schedules, asked by the database's clock.

A plain interval becomes a grid and is computed in SQL. Everything else (crontab, solar,
``relative`` intervals, users' own classes) is asked in Python, with its ``nowfun`` pinned
to an instant that came from the database, so that the host's clock has no say.
"""

from __future__ import annotations

import copy
from datetime import datetime, tzinfo
from typing import Any

from celery import Celery
from celery.schedules import BaseSchedule, crontab, schedule, solar

from celery_pecker import foreign
from celery_pecker.clock import from_us, to_us
from celery_pecker.schedules.model import Recurrence

SECOND = 1_000_000
RETRY = 60.0
"""Seconds until a schedule that failed, or gave no later instant, is asked again."""
MOST = 300.0
"""Seconds after which a schedule that can only be asked is asked again at the latest."""
KNOWN = {schedule.is_due, crontab.is_due, solar.is_due}


class _Pinned:
    """A copy of a schedule whose "now" is what we say."""

    def __init__(self, given: BaseSchedule, app: Celery, described: str) -> None:
        self._schedule: Any = copy.copy(given)
        self._schedule.app = app
        self._schedule.nowfun = self._now
        self._zone: tzinfo = app.timezone
        self._pin = from_us(0)
        self._described = described

    def _now(self) -> datetime:
        return self._pin

    def _at(self, instant_us: int) -> datetime:
        return from_us(instant_us).astimezone(self._zone)


class Instants(_Pinned):
    """A schedule with instants of its own: the next after the last, whatever now is."""

    asks = False

    def next(self, last_us: int, now_us: int) -> int:
        """Return the first slot after the last."""
        instant_us = foreign.call(self._described, 0, self._after, last_us)
        if instant_us > last_us:
            return instant_us
        return max(last_us, now_us) + int(RETRY * SECOND)

    def _after(self, last_us: int) -> int:
        self._pin = self._at(last_us)
        remaining = self._schedule.remaining_estimate(self._pin)
        return to_us(self._pin + remaining)


class Asked(_Pinned):
    """A schedule with its own ``is_due``: it can only be asked "now?"."""

    asks = True

    def next(self, last_us: int, now_us: int) -> int:
        """Return now if it is due, else when to ask again."""
        due, wait = foreign.call(
            self._described, (False, RETRY), self._ask, last_us, now_us
        )
        if due:
            return max(now_us, last_us + 1)
        return now_us + int(max(min(wait, MOST), 0.01) * SECOND)

    def _ask(self, last_us: int, now_us: int) -> tuple[bool, float]:
        self._pin = self._at(now_us)
        due, wait = self._schedule.is_due(self._at(last_us))
        return bool(due), MOST if wait is None else float(wait)


def period_us(given: BaseSchedule) -> int | None:
    """Return the period of a plain interval, None for anything else."""
    if type(given) is schedule and not given.relative:
        return int(given.run_every.total_seconds() * SECOND + 0.5)
    return None


def recurrence(given: BaseSchedule, app: Celery, name: str) -> Recurrence:
    """Return what can be asked of a schedule that is no plain grid."""
    known = type(given).is_due in KNOWN
    kind = Instants if known else Asked
    return kind(given, app, f"schedule {given!r} of entry {name!r}")
