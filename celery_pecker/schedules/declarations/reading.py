"""The entries that a scheduler works with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from celery import Celery
from celery.beat import ScheduleEntry
from celery.schedules import schedule

from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.kernel.lease import SECOND
from celery_pecker.schedules.declarations.policies import policy
from celery_pecker.schedules.declarations.validation import check_schedule
from celery_pecker.schedules.engine.model import Entry
from celery_pecker.schedules.recurrence import (
    described,
    in_words,
    period_us,
    recurrence,
)

YEAR = 31_536_000
"""Seconds: a longer countdown counts as this one."""


def entries(
    declared: Mapping[str, ScheduleEntry], app: Celery, *, conf: Mapping[str, Any]
) -> list[Entry]:
    """Return the checked entries of an app."""
    return [_entry(name, entry, app, conf) for name, entry in declared.items()]


def _entry(
    name: str, declared: ScheduleEntry, app: Celery, conf: Mapping[str, Any]
) -> Entry:
    where = f"beat_schedule[{name!r}]"
    recurs: Any = declared.schedule
    check_schedule(where, recurs)
    every_us = None
    if _plain(recurs):  # a relative one too, which is no grid
        check_schedule(where, recurs.run_every)
        every_us = int(recurs.run_every.total_seconds() * SECOND + 0.5)
        if getattr(recurs, "relative", False) and every_us < SECOND:
            # Celery rounds such an instant down to its second: it lies before the last.
            message = (
                f"{where}: schedule is every {every_us / SECOND:g} s, relative; allowed"
                " with relative is 1 s or more: Celery rounds to whole seconds"
            )
            raise Misconfigured(message)
    period = period_us(recurs)
    return Entry(
        name=name,
        task=str(declared.task),
        described=described(recurs),
        words=in_words(recurs, app, name),
        policy=policy(
            f"{where}['pecker']",
            getattr(declared, "pecker", None),
            recurs,
            every_us,
            conf=conf,
        ),
        period_us=period,
        recurrence=recurrence(recurs, app, name) if period is None else None,
        countdown_us=_countdown_us((declared.options or {}).get("countdown")),
    )


def _countdown_us(countdown: object) -> int | None:
    """Return the microseconds of a countdown; Celery refuses what is none."""
    if not isinstance(countdown, int | float) or not countdown > 0:
        return None
    return int(min(countdown, YEAR) * SECOND)


def _plain(recurs: object) -> bool:
    """Return whether its instants are Celery's own, one ``run_every`` after another."""
    return (
        isinstance(recurs, schedule)
        and type(recurs).is_due is schedule.is_due
        and type(recurs).remaining_estimate is schedule.remaining_estimate
    )
