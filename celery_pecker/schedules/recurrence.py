"""Celery's schedules, asked by the database's clock.

A plain interval becomes a grid and is computed in SQL. A schedule of our calendars
names the next slot after the last. Everything else (crontab, solar, ``relative``
intervals, users' own classes) is asked in Python, with its "now" pinned to an instant
that came from the database: the host's clock has no say.
"""

import logging
import re
from datetime import datetime, timedelta, tzinfo
from typing import Any

from celery import Celery
from celery.schedules import crontab, schedule, solar

from celery_pecker import calendars
from celery_pecker.calendars import CalendarSchedule
from celery_pecker.kernel import user_code
from celery_pecker.kernel.clock import MICROSECOND, from_us, to_us
from celery_pecker.schedules.engine.model import NEVER_US, Recurrence

logger = logging.getLogger("celery_pecker.beat")

SECOND = 1_000_000
RETRY = 60.0
"""Seconds until a schedule that failed, or gave no later instant, is asked again."""
MOST = 300.0
"""Seconds after which a schedule that can only be asked is asked again at most."""
LEAST = 0.01
"""Seconds that pass between two such questions at least."""
GAPS = 8
"""Gaps between instants that entries with one schedule remember."""
REPEATED = 24 * 60
"""Instants that a crontab can have in the time that clocks go back by: an hour in most
zones, two in Antarctica/Troll, a day where a zone crosses the date line."""
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
KNOWN = {schedule.is_due, crontab.is_due, solar.is_due}


class _Asked:
    """A recurrence with instants of its own: the next after the last, whatever now is.

    It fails if code of the user's does, and is asked again in a minute.
    """

    is_polled = False
    _described: str
    _known = (0, 0)
    """The last answer: a slot, and the next. It is asked for again between claim and
    publish, where a crontab's tenth of a millisecond counts."""

    def next(self, last_us: int, now_us: int) -> int:
        """Return the first slot after the last; NEVER_US: there is none left."""
        known_us, instant_us = self._known
        if known_us == last_us and instant_us > last_us:
            return instant_us
        instant_us = user_code.call(self._described, 0, self._first_after, last_us)
        if instant_us > last_us:
            self._known = last_us, instant_us
            return instant_us
        return max(last_us, now_us) + int(RETRY * SECOND)

    def _first_after(self, last_us: int) -> int:
        raise NotImplementedError


class _Pinned:
    """A copy of a schedule whose "now" is what we say."""

    def __init__(self, recurs: Any, app: Celery, described: str) -> None:
        self._schedule: Any = _copy(recurs)
        self._schedule.app = app
        self._schedule.nowfun = self._now
        self._schedule.now = self._now  # some classes read another clock there
        self._zone: tzinfo = app.timezone
        self._pin = from_us(0)
        self._described = described

    def _now(self) -> datetime:
        return self._pin

    def _at(self, instant_us: int) -> datetime:
        return from_us(instant_us).astimezone(self._zone)


class Instants(_Pinned, _Asked):
    """A schedule of Celery's, asked as of its last slot."""

    def _first_after(self, last_us: int) -> int:
        """Return the first instant after the last, also where clocks go back.

        In the second pass of an hour that comes twice, Celery answers with an instant
        of the first pass (and its beat sends without end): go on from there.
        """
        instant_us = self._after(last_us)
        for _ in range(REPEATED):
            if instant_us > last_us:
                return instant_us
            instant_us = self._after(instant_us)
        logger.warning(
            "pecker: %s gave no instant after %s; asked again in %g s",
            self._described,
            from_us(last_us),
            RETRY,
        )
        return last_us

    def _after(self, last_us: int) -> int:
        self._pin = self._at(last_us)
        remaining: timedelta = self._schedule.remaining_estimate(self._pin)
        # Real time, as Celery means it: `pin + remaining` would go by the hands of the
        # local clock and be an hour off over each change to or from summer time.
        return last_us + remaining // MICROSECOND


class PolledRecurrence(_Pinned):
    """A schedule with its own ``is_due``: it can only be asked "now?"."""

    is_polled = True

    def next(self, last_us: int, now_us: int) -> int:
        """Return now if it is due, else when to ask again."""
        wait_us = user_code.call(
            self._described, int(RETRY * SECOND), self._ask, last_us, now_us
        )
        return max(now_us, last_us + 1) if wait_us is None else now_us + wait_us

    def _ask(self, last_us: int, now_us: int) -> int | None:
        """Return None if it is due, else the microseconds until it is asked again."""
        self._pin = self._at(now_us)
        due, wait = self._schedule.is_due(self._at(last_us))
        if due:
            return None
        seconds = MOST if wait is None else float(wait)
        return int(max(min(seconds, MOST), LEAST) * SECOND)


class Computed(_Asked):
    """A schedule of our calendars, whose instants follow from one another."""

    def __init__(self, recurs: CalendarSchedule, app: Celery, name: str) -> None:
        self._schedule = recurs.bound(app, name)
        self._described = f"schedule {recurs!r} of entry {name!r}"

    def _first_after(self, last_us: int) -> int:
        instant = self._schedule.instant_after(from_us(last_us))
        return NEVER_US if instant is None else to_us(instant)


class CachedRecurrence:
    """A recurrence that entries share: between two of its instants is no other.

    To ask a crontab takes a tenth of a millisecond, and some thousand of 100,000
    entries have the same one: their last slots lie in the same few gaps.
    """

    is_polled = False

    def __init__(self, shared: Recurrence) -> None:
        self._shared = shared
        self._gaps: list[tuple[int, int]] = []

    def next(self, last_us: int, now_us: int) -> int:
        """Return the first slot after the last; it may lie in the past."""
        for first_us, next_us in self._gaps:
            if first_us <= last_us < next_us:
                return next_us
        next_us = self._shared.next(last_us, now_us)
        failed = next_us == max(last_us, now_us) + int(RETRY * SECOND)
        if next_us > last_us and not failed:
            self._gaps = [(last_us, next_us), *self._gaps[: GAPS - 1]]
        return next_us


def described(recurs: object) -> str:
    """Return a schedule in words that are the same in each process.

    A class of the user's without ``__repr__`` shows its address in memory, and would
    seem to have changed at each start.
    """
    return ADDRESS.sub("", str(recurs))


def period_us(recurs: Any) -> int | None:
    """Return the period of a plain interval, None for anything else."""
    if type(recurs) is schedule and not recurs.relative:
        interval: Any = recurs
        return int(interval.run_every.total_seconds() * SECOND + 0.5)
    return None


def in_words(recurs: Any, app: Celery, name: str) -> str:
    """Return the schedule of an entry in words."""
    if isinstance(recurs, CalendarSchedule):
        recurs = recurs.bound(app, name)
    return calendars.in_words(recurs)


def recurrence(recurs: Any, app: Celery, name: str) -> Recurrence:
    """Return what can be asked of a schedule that is no plain grid."""
    if isinstance(recurs, CalendarSchedule):
        return Computed(recurs, app, name)
    known = getattr(type(recurs), "is_due", None) in KNOWN
    kind = Instants if known else PolledRecurrence
    return kind(recurs, app, f"schedule {recurs!r} of entry {name!r}")


def _copy(recurs: Any) -> Any:
    """Return a copy that needs no help of the class.

    ``copy.copy`` asks ``crontab.__reduce__``, which builds a subclass anew from the
    five arguments of crontab: a class with arguments of its own fails, or forgets them.
    """
    copied = object.__new__(type(recurs))
    copied.__dict__.update(recurs.__dict__)
    return copied
